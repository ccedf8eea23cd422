// Package fakestore is the store that the tests of slidingttl, its explorer, its model and the suite
// for drivers share: the rules of package driver once, with room for what a test does before and
// after each call.
//
// A [Driver] makes each call of its methods a [Call] and hands it to Handle, which answers it. What
// Handle does before the call takes effect (wait, fail, count), between the effect and the answer
// (lose it, judge it), and in place of either, is up to the test. [Call.Apply] is the effect: the
// contract over one record, wherever a test keeps its records. [Store] keeps them in a map, and
// [Forward] makes the call of another driver.
package fakestore
