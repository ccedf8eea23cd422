package couchbasetest

const LastConfigRev = lastConfigRev
