package guest_test

import "testing"

// subordinate is the way that docs/decisions/own-uid-of-an-ordinary-user.md decided against, tried: the user's own id
// is root of a user namespace, a command has a subordinate one, and an overlay shows it what is the user's.
const subordinate = `set -eu
rm -rf s; mkdir s; cd s; mkdir lower upper work merged lower/dir
echo text > lower/file; echo text > lower/secret; echo text > lower/dir/file; chmod 644 lower/file; chmod 600 lower/secret
unshare --user --map-root-user --map-auto --mount sh -c '
	mount -t overlay overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work merged
	cd merged
	try() { what=$1; shift; printf "%s: " "$what"; setpriv --reuid 1 --regid 1 --clear-groups --inh-caps=-all sh -c "$*" 2>&1 | sed "s/.*: //"; }
	try id "id -u"
	try "read 0644" "cat file"
	try "read 0600" "cat secret"
	try "write 0644" "echo x >> file && echo done"
	try "create" "echo x > new && echo done"
	try "remove" "rm -f file && echo done"
	try "chmod" "chmod 666 file && echo done"
	chown 1:1 .
	try "create in a given folder" "echo x > new && echo done"
	try "write 0644 in it" "echo x >> file && echo done"
	try "create in a folder below" "echo x > dir/new && echo done"
	cd ..
	before=$(find upper -type f | wc -l)
	chown -R 1:1 merged
	echo "copied up by giving all away: $(($(find upper -type f | wc -l) - before)) of 3 files"
	cd merged
	try "write then" "echo x >> dir/file && echo done"
'
rm -rf upper 2>/dev/null && echo "the user can remove it" || echo "the user cannot remove it"
unshare --user --map-root-user --map-auto rm -rf upper work
`

// What the decision says was seen.
const subordinateSeen = `id: 1
read 0644: text
read 0600: Permission denied
write 0644: Permission denied
create: Permission denied
remove: Permission denied
chmod: Operation not permitted
create in a given folder: done
write 0644 in it: Permission denied
create in a folder below: Permission denied
copied up by giving all away: 3 of 3 files
write then: done
the user cannot remove it
`

func (s session) testSubordinateIDs(t *testing.T) {
	if a := s.login(t, subordinate); string(a.Stdout) != subordinateSeen {
		t.Errorf("exit %d\n%s%s\nwant\n%s", a.Exit, a.Stdout, a.Stderr, subordinateSeen)
	}
}
