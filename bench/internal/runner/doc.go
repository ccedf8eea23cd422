// Package runner measures contestants side by side.
//
// Each contestant runs in a process of its own, so that none pays for another's
// garbage, timers or memory. The processes take turns: in every round each does
// every task once, in an order of that round's own, so that what disturbs the machine
// disturbs all alike. A figure is the median over the rounds; a ratio of two
// contestants is the median of the ratios within each round.
package runner
