package main

// otherABIs: this architecture has none that a 64-bit process can call.
func otherABIs() {}
