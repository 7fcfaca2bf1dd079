package sim

// Broken names a rule that a history breaks on purpose, to show that a law notices. Nothing of it is in the code that decides.
type Broken string

// What can be broken.
const (
	NoFence        Broken = "the journal takes what a late holder appends"
	NoLease        Broken = "a lease is taken though another has it"
	WrongTree      Broken = "checks run on the base in place of the change"
	NoChecks       Broken = "the decision is told of a check that passed"
	NoMark         Broken = "the provider lists and destroys what is another factory's"
	AllFree        Broken = "reconcile takes every Attempt for ended and free, and does not look again"
	DestroyFirst   Broken = "a sandbox is destroyed before that is recorded"
	CreateFirst    Broken = "a sandbox is made before that is recorded"
	TwoPulls       Broken = "neither Publisher nor forge looks for an open pull request"
	Hasty          Broken = "a change is handed over before it is decided"
	Reopens        Broken = "the Publisher does not mind a closed pull request"
	Overwrite      Broken = "branches are moved whoever was there"
	AdmitsAll      Broken = "the Publisher takes every acceptance"
	NewReceipts    Broken = "a receipt is made anew each time"
	NoRevoke       Broken = "a token is taken for gone and not revoked"
	NoSweep        Broken = "nobody ends the tokens that an ended Publisher left"
	NobodyAdopts   Broken = "reconcile starts no driver"
	LostProjection Broken = "the store forgets what an event did to its projection"
	// As it once was, until a history showed it.
	NeverConcludes Broken = "reconcile concludes nothing about an allocation whose create was never answered"
	FailsTwice     Broken = "reconcile records as failed what is failed or orphaned already, and is refused"
	LooksOnce      Broken = "the Publisher looks for a closed pull request before it pushes, and not before it opens one"
	LastWord       Broken = "a pass that was found earlier takes the place of a failure that is remembered"
	Unmarked       Broken = "reconcile destroys what it could not mark as orphaned"
)
