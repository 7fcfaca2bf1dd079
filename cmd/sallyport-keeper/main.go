// Command sallyport-keeper stands outside one local sandbox; `sallyport` starts it. See
// internal/provider/local/keeper.
package main

import (
	"fmt"
	"os"

	"sallyport.dev/sallyport/internal/provider/local/keeper"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "sallyport-keeper is started by sallyport, with an allocation and a factory id; it has no use by hand")
		os.Exit(2)
	}
	if err := keeper.Main(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
