package change

import (
	"fmt"
	"os/user"
	"strconv"
)

func loginOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid%d", uid)
}
