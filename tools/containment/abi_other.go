//go:build !amd64

package main

func otherABI() result { return result{false, "none here"} }
