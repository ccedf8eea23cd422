package main

func Example() {
	main()
	// Output:
	// before:
	//   a profile read every ten days is there after 120 days
	//   one that nobody read is there too
	// after:
	//   a profile read every ten days is gone on day 90: slidingttl: touch: not found
	//   one that nobody read is gone too: no such profile
}
