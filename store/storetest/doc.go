// Package storetest holds every store to the contract of queue.Store and queue.History.
//
// A store's own test calls Run with a way to open the store, to open it again as after a crash, and to damage
// a record. Compare gives random changes to the store and to a model, which is the memory store, and wants the
// same answers. What only one store has (files, locks, schemas) is tested beside it.
//
// Start reading at suite.go.
package storetest
