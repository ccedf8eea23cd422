// Package gorm has tests of drivers/sql in transactions of GORM.
package gorm
