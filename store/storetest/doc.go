// Package storetest holds every store to the contract of queue.Store and queue.History.
//
// Run is the whole suite; a store's own test calls it with a way to open the store, to open it again as after
// a crash, and to damage a record. What only one store has (files, locks, schemas) is tested beside it.
// The memory store is the model: the property test gives it and the store under test the same changes, and
// wants the same answers.
//
// Start reading at suite.go.
package storetest
