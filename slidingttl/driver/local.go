package driver

// Local is a driver whose store is this process's memory: its calls do not block
// and fail only by their arguments. The store above then touches in place, with
// nothing to share, detach or queue.
type Local interface {
	// Local only marks the driver.
	Local()
}
