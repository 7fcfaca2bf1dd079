package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"sallyport.dev/sallyport"
)

// wrap gives a driver's error a code, a sentence and a next step. An error that has a code passes as it is.
func wrap(op, path string, err error) error {
	var coded *sallyport.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	e := &sallyport.Error{Op: op, Subject: path, Err: err, Code: sallyport.CodeUnknown, Message: "the journal could not be read or written"}
	var d *driver.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code, e.Message = sallyport.CodeUnavailable, "the caller gave up waiting; nothing was appended"
	case errors.Is(err, sql.ErrConnDone), err.Error() == "sql: database is closed": // the latter has no name to compare with
		e.Code, e.Message = sallyport.CodeUnavailable, "the journal is closed"
	case errors.As(err, &d):
		explain(e, d.Code()&0xff, path) // the low byte is the primary result code (sqlite.org/rescode.html)
	}
	return e
}

func explain(e *sallyport.Error, primary int, path string) {
	folder := filepath.Dir(path)
	switch primary {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		e.Code, e.Message = sallyport.CodeUnavailable, "the journal is locked by another process"
		e.Hint = "wait and repeat; if it stays, look for a stopped process that has " + path + " open"
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		e.Code, e.Message = sallyport.CodeCorrupt, "the journal is damaged, or the file is not a journal"
		e.Hint = "keep the file and its -wal and -shm neighbours, and restore a copy beside them"
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		e.Code, e.Message = sallyport.CodeUnavailable, "the journal cannot be opened for writing"
		e.Hint = "make " + folder + " and the journal in it writable for this user"
	case lib.SQLITE_FULL:
		e.Code, e.Message = sallyport.CodeExhausted, "no space is left for the journal; nothing was appended"
		e.Hint = "free space in " + folder
	case lib.SQLITE_IOERR:
		e.Code, e.Message = sallyport.CodeUnknown, "the disk reported an error: what was being appended may or may not be there"
		e.Hint = "look at the kernel's log and the free space in " + folder + ", then read the journal again"
	}
}

func corrupt(op, subject, message string) error {
	return &sallyport.Error{Op: op, Code: sallyport.CodeCorrupt, Subject: subject, Message: message, Hint: "keep the journal's files as they are and compare with the last signed checkpoint"}
}

func closedError() error {
	return &sallyport.Error{Op: "append", Code: sallyport.CodeUnavailable, Message: "the journal is closed; nothing was appended"}
}
