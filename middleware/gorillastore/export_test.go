package gorillastore

// MergeLists is the default of Options.Merge.
var MergeLists = mergeLists
