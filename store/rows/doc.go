// Package rows is what the SQL stores have in common: which rows a change is, and what rows read back are.
//
// A backend keeps tables, and gives them as Tables: it runs the statements that are named here, each with its own SQL,
// within a transaction of its own. It also decides who owns the database, and lists the history by its own SQL. All
// else is here, so that no two backends differ: what a batch does to a job's row, how a record is put together, what
// stands for one that cannot be read. Package storetest holds them to it. Nothing here knows a driver.
//
// A Batch belongs to one goroutine. What reads keeps no state. Start reading at tables.go, then batch.go for writing and
// load.go for reading.
package rows
