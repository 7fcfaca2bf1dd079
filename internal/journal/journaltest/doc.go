// Package journaltest is the suite that every journal store passes: each sentence of journal.Journal is a
// named subtest. It is imported by tests only. What is special to one store (its file, its schema, its
// crashes) is tested beside that store.
package journaltest
