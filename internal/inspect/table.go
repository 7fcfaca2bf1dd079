package inspect

import "slices"

const (
	todoRename = "give the file another name"
	todoReview = "read this change before you approve"
	todoAsk    = "leave it out, or make this change by hand"
	todoPoint  = "let the link point to a file of the tree"
	todoSource = "see that the source is one that you trust"
)

// table lists every rule, by concern.
var table = slices.Concat([]Rule{
	{"scope.outside", block, none, "the change touches a path that the task was not given", "limit the task, or add the path to scope.allow"},
	{"scope.denied", block, none, "the change touches a path that policy keeps from agents", "leave it as it is, or make this change by hand"},

	{"link.absolute", block, block, "a link with an absolute target shows a file of the machine that checks it out", "use a relative target inside of the repository"},
	{"link.outside", block, block, "a link whose target leaves the tree lets a later write or read go anywhere", "use a target inside of the repository, with .. only at its beginning"},
	{"link.git", block, block, "a link into .git lets the next file written become a hook or configuration of git", todoPoint},
	{"link.invalid", block, block, "the target is empty, longer than a path can be, or holds a NUL byte", todoPoint},
	{"link.special", block, none, "git itself refuses or ignores .gitmodules, .gitattributes and their like where they are links", "make it a plain file"},
	{"link.added", info, none, "what a link shows can change without the link", "see where it points"},

	{"name.invalid", block, block, "a path that is empty, absolute or climbs out of its folder is no path in a tree", todoRename},
	{"name.git", block, block, "some file system takes the name for .git: by case, ignored characters, short names or streams", todoRename},
	{"name.control", block, none, "control characters in a name write to the terminals and logs that show it", todoRename},
	{"name.backslash", block, none, "a backslash separates folders on Windows, so the file lands elsewhere", todoRename},
	{"name.bidi", block, none, "direction controls let a name read otherwise than it is", todoRename},
	{"name.invisible", block, none, "two names that differ in what cannot be seen look the same", todoRename},
	{"name.homoglyph", warn, none, "letters of another script that look like Latin ones let a name pass for another", "write the name in one script"},
	{"name.encoding", warn, none, "a name that is not UTF-8 reads differently on each system", "use UTF-8"},
	{"name.colon", warn, none, "a colon names a stream or drive on Windows", todoRename},
	{"name.windows", warn, none, "Windows cannot store the name, so nobody can check the branch out there", todoRename},
	{"name.trailing", warn, none, "Windows drops trailing dots and spaces, so the name becomes another", todoRename},
	{"name.device", warn, none, "Windows opens a device under this name", todoRename},
	{"name.dash", warn, none, "a name that begins with a dash is an option to programs that are given it", todoRename},
	{"name.twin", warn, none, "two names that differ only in case or Unicode form are one file on many machines", "give one of the two another name"},
	{"name.twin-folder", block, none, "a folder's name and that of a file or link differ only in case or Unicode form: writing into the folder goes through the link", "give one of the two another name"},

	{"repo.nested", block, none, "the folder has the shape of a bare git repository, whose configuration git obeys inside of it", "leave it out, or pack it into an archive that tests unpack"},

	{"mode.unusual", block, block, "git knows files, executable files, links, folders and submodules; anything else is a trick", "use a plain file, an executable file or a link"},
	{"mode.executable", info, none, "the file can be run directly", "see that it should be one"},
	{"mode.type", info, none, "one kind of entry takes the place of another", todoReview},

	{"submodule.added", block, none, "a submodule brings code that was neither seen nor checked", todoAsk},
	{"submodule.moved", block, none, "a submodule's new commit was neither seen nor checked", todoAsk},
	{"submodule.removed", warn, none, "the code of the submodule is no longer there", todoReview},
	{"submodule.config", block, none, ".gitmodules decides what git fetches and runs for submodules", todoAsk},
	{"submodule.url", block, none, "a submodule is fetched from a place that the base does not name", todoAsk},
	{"submodule.unsafe", block, block, "an entry of .gitmodules that attacks git or the machine: a name or path that escapes, a URL that is an option or a program, an update command", "remove the entry"},

	{"lfs.pointer", warn, none, "the change moves a pointer of Git LFS; the content behind it was not inspected", "look at the object's content before you approve"},
	{"lfs.missing", block, none, "the object behind a pointer of Git LFS is not in the local store, so a checkout of the branch fails", "bring the object into the local store, or leave the pointer out"},
	{"lfs.malformed", warn, none, "the file begins like a pointer of Git LFS and is none in the form that git-lfs writes", "write the pointer with git-lfs"},
	{"lfs.raw", block, none, "a file that belongs to Git LFS would stay in the history with all its content, and git-lfs complains in every clone", "add it yourself, where git-lfs is installed, or leave it out"},
	{"lfs.replaced", info, none, "a file that Git LFS kept is now in the repository itself", "see that it belongs there"},
	{"lfs.config", warn, none, ".lfsconfig steers git-lfs on every machine that checks the branch out", todoReview},
	{"lfs.url", block, none, ".lfsconfig names another server: objects, and credentials with them, go there", todoAsk},

	{"git.attributes", warn, none, "attributes change how git reads, shows, merges and archives files", "read it: it changes how git reads and shows files"},
	{"attributes.hides", warn, none, "files are no longer shown in differences, or a forge folds them away", "read the named files in full"},
	{"attributes.export", warn, none, "archives of the branch leave out or rewrite files", "see that no file is missing from what you ship"},
	{"attributes.bytes", warn, none, "a checkout writes other bytes than those that were inspected", "see what a checkout makes of the named files"},
	{"attributes.driver", warn, none, "files are given to a program that git configuration names, or merged in another way", "see which program is configured under this name"},

	{"ci.changed", warn, none, "a CI service runs the file with your forge's credentials once it is pushed", "read it: it runs with your forge's credentials once it is pushed"},
	{"hook.changed", warn, none, "git runs hooks on the machines of those who install them", "read it: it runs on the machines of those who pull it"},
	{"agent.config", warn, none, "coding agents take instructions, permissions and servers from the file", "read it: it instructs or configures coding agents"},
	{"editor.config", warn, none, "editors, shells and debuggers run or obey the file when the folder is opened", "read it: editors and shells run it when the folder is opened"},
	{"container.config", info, none, "the file decides what images and machines made from the repository contain", todoReview},
	{"lock.changed", warn, none, "dependencies are pinned anew; the checks ran with the base's", "rebuild with the new dependencies before you merge"},
	{"lock.setup", warn, none, "dependencies are pinned anew; setup ran from this file without scripts, and the checks with what it left", "look at what was pinned; scripts of the new dependencies have not run"},
	{"vendored.changed", warn, none, "code of others that is kept in the tree is edited, where few look", "compare it with the original"},

	{"deps.config", warn, none, "the file decides where package managers fetch from and with which credentials", todoSource},
	{"deps.source", warn, none, "dependencies come from a place that the base's version of the file does not name", todoSource},
	{"deps.insecure", warn, none, "dependencies are fetched without encryption or without verification", "use https and leave verification on"},
	{"deps.integrity", warn, none, "a dependency's hash is gone or differs for the same version", "write the lock file anew with the package manager and compare"},
	{"deps.install-script", warn, none, "a dependency runs a script of its own when it is installed", "read that script, or install without scripts"},

	{"runner.config", info, none, "the file decides what building and testing really do; the checks ran with the base's as well", "see that the checks still check"},
	{"runner.script", warn, none, "building, installing or testing runs the file or script without being asked", "read it: installing or building the project runs it"},
	{"runner.replace", warn, none, "a dependency is replaced by another", "see where the dependency now comes from"},
	{"tests.edited", info, none, "a test that the base has is edited", "read the edited tests first"},
	{"tests.weakened", warn, none, "a test that the base has is gone, disabled, or easier to pass", "see whether the change needs it, or hides behind it"},
	{"tests.expectation", info, none, "a test that the base has expects something else", "see that the new expectation is what was asked for"},
	{"tests.removed", info, none, "a file of the tests is gone", "see why they are gone"},

	{"size.file", warn, none, "a large file stays in the history for good", "keep large files out of git"},
	{"size.total", warn, none, "the change is heavy", "keep large files out of git"},
	{"size.count", warn, none, "the change touches more files than a person reads", "split the task"},
	{"size.path", warn, none, "the path is deeper or longer than common systems can store", "use a shorter path"},

	{"binary.added", info, none, "nobody can review the content of a binary file", "see where it comes from"},
	{"binary.changed", info, none, "nobody can review how a binary file was changed", "see where it comes from"},
	{"binary.executable", warn, none, "the file is a program, or loading it runs code", "build it from source instead"},
	{"archive.added", warn, none, "an archive hides files that were not inspected", "keep its content in the tree, or look into it"},
	{"archive.bomb", block, none, "an archive says of itself that it unpacks to far more than it weighs", "leave it out"},
	{"archive.escape", block, none, "an archive holds names or links that leave the folder it is unpacked to", "leave it out"},
	{"generated.changed", info, none, "the file says or shows by its name that a program wrote it", "write it anew from its sources and compare"},

	{"text.bidi", block, none, "direction controls make code read otherwise than it runs", "write the line without direction controls"},
	{"text.bidi-prose", warn, none, "direction controls make text read otherwise than it is stored", "see that the text reads as it is stored"},
	{"text.invisible", warn, none, "characters that cannot be seen are part of the text", "remove the invisible characters"},
	{"text.homoglyph", warn, none, "a word mixes Latin letters with ones of another script that look like them", "write the word in one script"},
	{"text.escape", warn, none, "the text writes to the terminal that shows it", "write terminal escapes as escaped text"},
	{"text.control", warn, none, "a control character or a rare line end hides text or ends a line for some programs only", "write control characters as escaped text"},
	{"text.far", warn, none, "text follows a long run of blanks, where an editor or browser does not show it", "read to the end of the line"},
}, secretRules, []Rule{
	{"scan.incomplete", warn, none, "a limit on bytes or time was met, so part of the change was not looked at", "read what was not scanned yourself"},
})
