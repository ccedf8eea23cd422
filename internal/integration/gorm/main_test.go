package gorm

import (
	"os"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }
