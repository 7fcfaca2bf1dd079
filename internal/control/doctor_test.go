package control

import (
	"slices"
	"testing"

	"sallyport.dev/sallyport"
)

// One remedy is said once, and only what is a command can be run as one.
func TestLayerFixes(t *testing.T) {
	got := layerFixes([]sallyport.LayerReport{
		{Layer: sallyport.LayerCPU, Status: sallyport.LayerNotHeld, Fix: "as root: mkdir x"},
		{Layer: sallyport.LayerMemory, Status: sallyport.LayerWatched, Fix: "as root: mkdir x"},
		{Layer: sallyport.LayerPIDs, Status: sallyport.LayerNotHeld, Fix: "run under a scope: `systemd-run …`"},
		{Layer: sallyport.LayerDisk, Status: sallyport.LayerHeld, Fix: "as root: never"},
		{Layer: sallyport.LayerOutput, Status: sallyport.LayerNotHeld},
	})
	want := []Fix{
		{Why: "cpu is not-held, memory is watched; as root:", Command: "mkdir x"},
		{Why: "pids is not-held: run under a scope: `systemd-run …`"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
