// Package admission holds nothing but a test: who gets in. Users have sessions by cookie, bearer
// token and gRPC, in two releases side by side whose clocks, policies and options differ and change,
// while calls race, the store fails, and an operator walks over its records. A judge knows of each token whether
// it may open a session, must, or must not.
package admission
