package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	gomysql "github.com/go-sql-driver/mysql"
)

// mysql is the SQL that both MySQL and MariaDB understand.
type mysql struct{}

func (mysql) quote(name string) string     { return "`" + name + "`" }
func (mysql) bind(statement string) string { return statement }
func (mysql) integer() string              { return "?" }

func (mysql) millis(t TimeType, column string) string {
	switch t {
	case Timestamp:
		return "CAST(FLOOR(UNIX_TIMESTAMP(" + column + ") * 1000) AS SIGNED)"
	case DateTime:
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " + column + ") DIV 1000"
	}
	return column
}

func (mysql) written(t TimeType, argument string) string {
	switch t {
	case Timestamp:
		return "FROM_UNIXTIME((" + argument + ") * 0.001)" // a quotient has as many digits as div_precision_increment says
	case DateTime:
		return "TIMESTAMPADD(MICROSECOND, (" + argument + ") * 1000, CAST('1970-01-01' AS DATETIME(6)))"
	}
	return argument
}

func (mysql) lesser(a, b string) string { return "LEAST(" + a + ", " + b + ")" }

// text names a character set: a trigger has that of the connection which made it. Bytes stay as they are, and so does
// what has no character set, such as a number. The text is bytes, for some character sets go with no other.
func (mysql) text(column string) string {
	return "IF(CHARSET(" + column + ") = 'binary', CONCAT(" + column + "), CAST(CAST(" + column + " AS CHAR CHARACTER SET utf8mb4) AS BINARY))"
}
func (mysql) size(column string) string { return "LENGTH(" + column + ")" }

// object gives a column of bytes in hexadecimal on MariaDB, where one such column makes an object
// of bytes, with every other text spoilt, and a number that is none in JSON (ZEROFILL) as a text. What is too long
// for the server makes all NULL. /*M! is MariaDB's alone, and /*!80000 MySQL's. MySQL itself encodes such a column
// ("base64:type15:...").
func (m mysql) object(row string, columns []string) string {
	value := func(c string) string {
		const array = "CONVERT(JSON_ARRAY(%s) USING utf8mb4)" // of UTF-16 else, which goes with no other text
		return fmt.Sprintf("JSON_EXTRACT(IF(CHARSET(%[1]s) = 'binary' AND COERCIBILITY(%[1]s) < 5, "+fmt.Sprintf(array, "HEX(CONCAT(%[1]s))")+
			", IF(JSON_VALID(JSON_ARRAY(%[1]s)), "+fmt.Sprintf(array, "%[1]s")+", "+fmt.Sprintf(array, "CONCAT(%[1]s)")+")), '$[0]')", c)
	}
	lost := make([]string, len(columns))
	for i, c := range columns {
		c = row + m.quote(c)
		lost[i] = fmt.Sprintf("%[1]s IS NULL OR JSON_TYPE(%[1]s) = 'NULL' AND %[2]s IS NOT NULL AND COALESCE(JSON_TYPE(CONVERT(%[2]s USING utf8mb4)), 'none') <> 'NULL'", value(c), c)
	}
	return "/*M! IF(" + strings.Join(lost, " OR ") + ", NULL, */" + object("JSON_OBJECT", row, columns, m.quote, func(c string) string {
		return "/*M! " + value(c) + " *//*!80000 " + c + " */"
	}) + "/*M! ) */"
}

// clock: UTC_TIMESTAMP is the statement's start. SYSDATE advances during the statement, but is
// local time. So the time since the start is taken modulo half an hour, the unit in which the time
// zone may shift meanwhile.
func (mysql) clock() string {
	return "(" + mysqlStart + " + MOD(TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)) + 7200000000, 1800000000)) DIV 1000"
}

func (mysql) began() string { return mysqlStart + " DIV 1000" }

const mysqlStart = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

func (mysql) locked(_ string, _ []string, is string, _ bool) string { return is }

func (mysql) unsynced(bool) string { return "" }

// upsert: ON DUPLICATE KEY UPDATE has no WHERE, and under clientFoundRows its count does not tell
// an insert from an update.
func (mysql) upsert([]string, []string, string) string { return "" }
func (mysql) excluded(string) string                   { return "" }

func (mysql) take(columns, _, from string) string {
	return "SELECT " + columns + from + " FOR UPDATE SKIP LOCKED"
}

// some: a DELETE reads the whole table for it, and one with a LIMIT waits for locks.
func (mysql) some(string, string) string { return "" }

// mysqlClasses are the server's classes of SQLSTATE.
const mysqlClasses = "00 01 02 08 0A 0K 0L 0P 0Z 20 21 22 23 24 25 27 28 2F 35 3D 40 42 44 70 HV HW HY HZ OP XA"

func (mysql) verdict(err error) verdict {
	var server *gomysql.MySQLError
	if !errors.As(err, &server) {
		return uncoded(err)
	}
	switch server.Number {
	case 1213, 1467, 1020, 1206: // deadlock, or one over the lock of AUTO_INCREMENT, as by Deletes's trigger; record has changed since last read (MariaDB's innodb_snapshot_isolation); no room for locks
		return collided
	case 1205: // innodb_rollback_on_timeout
		return timedOut
	case 1317, 1969, 3024: // interrupted; max_statement_time, max_execution_time
		return tooSlow
	case 1062:
		return duplicate
	case 1053, 1180, 1927, 3169, 1079: // shutdown, error during COMMIT, connection or session killed
		return unknown
	case 1265, 1364, 1366, 1644, 1906, 3105, 3819: // and a trigger's own error
		return impossible
	case 1044, 1045, 1698, 3118, 4151, 1142, 1143, 1227, 1370, 1049, 1146, 1054, 1305:
		return barred // wrong credentials, or a locked account; no right; no database, table, column or function
	}
	// A trigger's own error, by a number of its own; a value too long, which has three numbers. What is refused before a
	// connection stands may have no state.
	class := string(server.SQLState[:2])
	own := server.SQLState[0] != 0 && !strings.Contains(mysqlClasses, class)
	switch {
	case own, class == "22", class == "23", strings.Contains(server.Message, "max_allowed_packet"):
		return impossible
	case string(server.SQLState[:]) == "21000": // a subquery with several rows, as of a trigger
		return objected
	}
	return refused
}

// mysqlColumns: the plan of an INSERT tells which column lacks a default.
const mysqlColumns = `
SELECT COLUMN_NAME, CONCAT(COLUMN_TYPE, IF(CHARACTER_SET_NAME IN ('utf8mb4', 'binary'), '', COALESCE(CONCAT(' character set ', CHARACTER_SET_NAME), '')), IF(EXTRA LIKE '%auto_increment%' AND NOT FIND_IN_SET('NO_AUTO_VALUE_ON_ZERO', @@sql_mode), ' auto_increment', '')), COALESCE(DATETIME_PRECISION, 0), EXTRA LIKE '%on update%' OR EXTRA LIKE '% GENERATED%',
	IS_NULLABLE = 'YES', COLUMN_DEFAULT <> 'NULL' AND COLUMN_DEFAULT IS NOT NULL OR IS_NULLABLE = 'NO', ''
FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ?`

const mysqlIndexes = `
SELECT INDEX_NAME, NON_UNIQUE = 0 AND SUB_PART IS NULL AND INDEX_TYPE = 'BTREE', COALESCE(COLUMN_NAME, '')
FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = COALESCE(?, DATABASE()) AND TABLE_NAME = ? /*M!100600 AND IGNORED = 'NO' *//*!80000 AND IS_VISIBLE = 'YES' */
ORDER BY INDEX_NAME, SEQ_IN_INDEX`

const mysqlTriggers = `
SELECT TRIGGER_NAME, COALESCE(ACTION_STATEMENT, '') FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA = COALESCE(?, DATABASE()) AND EVENT_OBJECT_TABLE = ? AND COLLATION_CONNECTION LIKE 'utf8mb4%'`

const mysqlKind = `
SELECT COALESCE(MAX(CONCAT('of engine ', t.ENGINE)), '')
FROM information_schema.TABLES t JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
WHERE t.TABLE_SCHEMA = COALESCE(?, DATABASE()) AND t.TABLE_NAME = ? AND e.TRANSACTIONS <> 'YES'`

func (m mysql) describe(ctx context.Context, db *stdsql.DB, schema, table string) (*description, error) {
	in := stdsql.NullString{String: schema, Valid: schema != ""} // NULLIF would compare texts of two collations
	d, err := describe(ctx, db, mysqlColumns, mysqlIndexes, mysqlTriggers, in, table)
	if err == nil && len(d.columns) > 0 {
		err = db.QueryRowContext(ctx, mysqlKind, in, table).Scan(&d.wrong)
	}
	if err == nil && len(d.enabled) > 0 { // else it may be a view
		// REFERENTIAL_CONSTRAINTS shows only references to tables that this user has rights on.
		var text string
		err = db.QueryRowContext(ctx, "SHOW CREATE TABLE "+qualified(m, schema, table)).Scan(new(string), &text)
		d.silent = strings.Contains(text, " ON DELETE CASCADE")
	}
	return d, err
}

func (mysql) settings(ctx context.Context, db *stdsql.DB, times []TimeType) error {
	var autocommit, readOnly, offset, shift, logged int
	var most uint64
	var stands bool
	var isolation, mode, charset, completion string
	// MySQL 8 and MariaDB call the isolation differently; both answer to SHOW.
	if err := db.QueryRowContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')").Scan(new(string), &isolation); err != nil {
		return err
	}
	// The time zone's offset each fortnight of two years.
	offsets := make([]string, 52)
	for i := range offsets {
		offsets[i] = fmt.Sprintf("TIMESTAMPDIFF(SECOND, TIMESTAMPADD(DAY, %[1]d, UTC_TIMESTAMP()), FROM_UNIXTIME(UNIX_TIMESTAMP() + %[1]d * 86400))", 14*i)
	}
	all := strings.Join(offsets, ", ")
	query := "SELECT @@autocommit, @@read_only, @@sql_mode, @@log_bin AND @@binlog_format = 'STATEMENT', SLEEP(0.001) = 0 AND SYSDATE(6) = NOW(6), " +
		"TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), NOW()), GREATEST(" + all + ") - LEAST(" + all + "), CONCAT_WS(', ', @@character_set_client, @@character_set_connection, NULLIF(@@character_set_results, '')), @@completion_type, @@sql_select_limit"
	if err := db.QueryRowContext(ctx, query).Scan(&autocommit, &readOnly, &mode, &logged, &stands, &offset, &shift, &charset, &completion, &most); err != nil {
		return err
	}
	var r refusals
	r.when(autocommit != 1, "autocommit", "off", "must be on: each statement is a transaction")
	r.when(readOnly != 0, "database", "read-only", "must take writes")
	r.when(strings.Trim(strings.ReplaceAll(charset, "utf8mb4", ""), ", ") != "", "charset", charset, "must be utf8mb4 for client, connection and results: otherwise texts are converted on their way")
	r.when(completion != "NO_CHAIN", "completion_type", completion, "must be NO_CHAIN: otherwise statements after a commit are part of another transaction, which nobody commits")
	r.when(most < maxBatch, "sql_select_limit", fmt.Sprint(most), fmt.Sprintf("must be at least %d: otherwise reads of many keys leave some out", maxBatch))
	r.when(isolation == "READ-UNCOMMITTED", "isolation", isolation, "must be READ COMMITTED or higher: otherwise reads return values that may be rolled back")
	r.when(!strings.Contains(mode, "STRICT_TRANS_TABLES") && !strings.Contains(mode, "STRICT_ALL_TABLES"), "sql_mode", mode,
		"must have STRICT_TRANS_TABLES: otherwise a key that is too long is cut, and equals another key")
	r.when(strings.Contains(mode, "EMPTY_STRING_IS_NULL"), "sql_mode", mode, "must not have EMPTY_STRING_IS_NULL: empty texts would become NULL")
	r.when(strings.Contains(mode, "PAD_CHAR_TO_FULL_LENGTH"), "sql_mode", mode, "must not have PAD_CHAR_TO_FULL_LENGTH: texts of CHAR would be read with spaces behind them")
	r.when(logged != 0, "binlog_format", "STATEMENT", "must be ROW or MIXED: the driver's statements read the time")
	r.when(stands, "SYSDATE", "NOW", "must be the current time within a statement: sysdate-is-now must be off")
	r.when(slices.Contains(times, DateTime) && offset != 0, "time_zone", fmt.Sprintf("%+d s off UTC", offset),
		"must be UTC if a DATETIME column holds an instant: NOW() and CURRENT_TIMESTAMP write it in this zone")
	r.when(slices.Contains(times, Timestamp) && shift != 0, "time_zone", fmt.Sprintf("shifted by up to %d s in a year", shift),
		"must have one offset all year, such as '+00:00', if a TIMESTAMP column holds an instant: it is written in this zone, in which one hour a year occurs twice")
	return errors.Join(r...)
}

func (mysql) fits(t TimeType, c columnType) bool {
	switch t {
	case Timestamp:
		return strings.HasPrefix(c.name, "timestamp") && c.digits >= 3
	case DateTime:
		return strings.HasPrefix(c.name, "datetime") && c.digits >= 3
	}
	return mysql{}.integerType(c)
}

// holds: JSON's number would be rounded by a numeric column, and zero taken for the next number of AUTO_INCREMENT. MariaDB
// prints a FLOAT with six digits. A number in a column of another kind is rounded, read as a text that is no whole number,
// or taken for a place in an ENUM, a year or bits.
func (m mysql) holds(c columnType, json bool, field fieldKind) bool {
	is := func(part string) bool { return strings.Contains(c.name, part) }
	if json {
		return !is(" auto_increment") && (is("json") || is("text") || is("blob") || is("char") || is("varbinary"))
	}
	name, size, padded := mysqlType(c)
	isText := name == "char" || name == "varchar" || strings.HasSuffix(name, "text")
	counts := mysqlInteger(name) || name == "decimal" && !strings.Contains(size, ",")
	ok := true
	switch field {
	case textual:
		ok = m.valueKind(c).form != unfit
	case boolean:
		ok = isText || counts && !(padded && name == "decimal")
	case dated:
		ok = name == "datetime" || name == "timestamp"
	case integral:
		ok = isText || counts
	case floating:
		ok = isText || name == "double" && size == "" || name == "decimal" && !counts
	case ownBytes: // the client reads these as numbers and, by parseTime, as times
		ok = !mysqlInteger(name) && !slices.Contains([]string{"double", "year", "date", "datetime", "timestamp"}, name)
	}
	return ok && name != "float" && !is(" auto_increment")
}

// mysqlType splits a column's type into its name and what is in its brackets. padded: zeros are before its numbers.
func mysqlType(c columnType) (name, size string, padded bool) {
	name, _, _ = strings.Cut(strings.TrimSuffix(c.name, " auto_increment"), " character set ")
	name, padded = strings.CutSuffix(name, " zerofill")
	name, size, _ = strings.Cut(strings.TrimSuffix(strings.TrimSuffix(name, " unsigned"), ")"), "(")
	return name, strings.TrimSuffix(size, ",0"), padded
}

func mysqlInteger(name string) bool {
	return strings.HasSuffix(name, "int") && !strings.HasSuffix(name, "point")
}

func (mysql) integerType(c columnType) bool {
	return strings.HasPrefix(c.name, "bigint") && !strings.Contains(c.name, "unsigned")
}

func (mysql) keyKind(c columnType) keyKind {
	of, counts := strings.CutSuffix(c.name, " auto_increment")
	name, charset, _ := strings.Cut(of, " character set ")
	last, known := map[string]rune{"": 0, "ascii": 0x7f, "utf8": 0xffff, "utf8mb3": 0xffff}[charset]
	if !known || strings.HasSuffix(of, " zerofill") { // a list of keys may not be converted to it; its text has zeros before it
		return keyKind{}
	}
	name, size, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(name, " unsigned"), ")"), "(")
	n, _ := strconv.Atoi(size)
	switch name {
	case "binary":
		return keyKind{form: anyText, width: n}
	case "varbinary":
		return keyKind{form: anyText}
	case "varchar":
		return keyKind{form: anyText, most: n, last: last}
	case "uuid":
		return keyKind{form: uuidText}
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return keyKind{form: wholeNumber, counts: counts}
	}
	return keyKind{}
}

// valueKind leaves to the application how its ENUM, SET and dates are spelled.
func (m mysql) valueKind(c columnType) keyKind {
	c.name, _, _ = strings.Cut(c.name, " character set ")
	k := m.keyKind(c)
	switch name, size, padded := mysqlType(c); {
	case name == "char":
		k = keyKind{form: anyText, most: -1}
	case name == "decimal" && !padded:
		_, scale, _ := strings.Cut(size, ",")
		k.form = wholeNumber
		k.scale, _ = strconv.Atoi(scale)
	case strings.HasSuffix(name, "text"), strings.HasSuffix(name, "blob"), slices.Contains([]string{"enum", "set", "date", "datetime", "timestamp", "time"}, name):
		k.form = anyText
		if bytes := map[string]int{"tinytext": 1<<8 - 1, "text": 1<<16 - 1, "mediumtext": 1<<24 - 1}[name]; bytes > 0 {
			k.most = -1 - bytes/utf8.UTFMax // of which no character set needs more
		}
	}
	k.counts = false
	return k
}

func (mysql) cast(c columnType, field fieldKind) string {
	switch name, _, _ := mysqlType(c); {
	case field == dated:
		return fmt.Sprintf("CAST(? AS DATETIME(%d))", c.digits)
	case mysqlInteger(name):
		return "CAST(? AS SIGNED)"
	}
	return "?"
}

func (mysql) arguments(statement string) int { return arguments(statement) }

func (mysql) types() traits {
	return traits{
		key:     func(most int) string { return fmt.Sprintf("VARBINARY(%d)", most) },
		value:   "JSON",
		integer: "BIGINT", serial: "BIGINT AUTO_INCREMENT PRIMARY KEY", kept: "LONGBLOB",
		setDefault: "ALTER TABLE %s ALTER COLUMN %s SET DEFAULT 0",
		from:       " FROM DUAL", locks: " FOR UPDATE",
		rollsBack: true, ends: 2147483647000, grant: grant, modify: "ALTER TABLE %s MODIFY %s %s", scansBytes: true, finite: true,
		isolation: stdsql.LevelReadCommitted, // else a sweep would also lock the gap before the next expiry
		times:     map[TimeType]string{Millis: "BIGINT", Timestamp: "TIMESTAMP(3) NULL", DateTime: "DATETIME(3)"},
	}
}

func (d mysql) indexed(schema, table string) string { return qualified(d, schema, table) }

func (d mysql) trigger(schema, table, trigger, event string, of []string, insert string) []string {
	same := make([]string, len(of))
	for i, c := range of {
		same[i] = "OLD." + c + " <=> NEW." + c
	}
	if len(of) > 0 { // keep a touch's cost to this comparison
		insert = "IF NOT (" + strings.Join(same, " AND ") + ") THEN " + insert + "; END IF"
	}
	name := qualified(d, schema, trigger)
	return []string{ // only MariaDB can replace one
		"/*!80000 DROP TRIGGER IF EXISTS " + name + " *//*M! DO 0 */",
		"CREATE /*M! OR REPLACE */ TRIGGER /*!80000 IF NOT EXISTS */ " + name + " AFTER " + event + " ON " + qualified(d, schema, table) + " FOR EACH ROW " + insert,
	}
}

func (d mysql) dropTrigger(schema, _, trigger string) string {
	return "DROP TRIGGER IF EXISTS " + qualified(d, schema, trigger)
}
