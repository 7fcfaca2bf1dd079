// Package abi makes system calls by the ways of an architecture that Go does not use: what confines a program must refuse
// them, and what attacks it tries them.
package abi
