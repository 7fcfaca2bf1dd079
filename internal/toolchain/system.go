package toolchain

// systemRoots are the distribution's own folders. Where one is a symbolic link (/bin on a merged /usr) the
// link is kept. /usr holds /usr/local.
var systemRoots = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemEtc is all of /etc that a sandbox sees: configuration that programs need to start, to load
// libraries, to know the time zone and which certificates to trust. Each was looked at for secrets; what may
// hold one (ssl/private, pki/entitlement, npmrc, pip.conf, gitconfig, nix.conf, environment, profile.d) or
// names the machine (machine-id, hostname, hosts, resolv.conf) is not here. Users and groups (passwd, group)
// are the provider's to write.
var systemEtc = []string{
	// Dynamic linking and names of programs.
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives",
	// Trust anchors, without the private keys beside them.
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ssl/ct_log_list.cnf", "ca-certificates", "ca-certificates.conf",
	"pki/ca-trust/extracted", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/java", "crypto-policies",
	// Time, names and numbers.
	"localtime", "timezone", "locale.alias", "locale.conf", "nsswitch.conf", "host.conf", "gai.conf",
	"protocols", "services", "rpc", "ethertypes", "networks",
	// What the system is.
	"os-release", "debian_version", "lsb-release", "redhat-release", "fedora-release", "alpine-release", "arch-release", "SuSE-release", "static",
	// Types, fonts, terminals, catalogues.
	"mime.types", "mailcap", "magic", "magic.mime", "fonts", "terminfo", "inputrc", "shells", "xml", "sgml", "manpath.config",
	// Languages and their libraries.
	"java-*-openjdk", "java", "jvm", "python3*", "perl", "R", "ruby", "php/*/cli", "php/*/mods-available", "php.ini", "php.d",
	"maven", "gradle", "erlang", "ghc", "mono", "dotnet", "emacs", "ImageMagick-*", "OpenCL", "libnl-3", "glvnd", "vulkan",
}

// systemSuspect are files below the system's folders that hold a credential on some machines: hidden only
// where their content looks like one.
var systemSuspect = []string{
	"/usr/etc/npmrc", "/usr/local/etc/npmrc", "/usr/lib/node_modules/npm/npmrc", "/usr/local/lib/node_modules/npm/npmrc",
	"/usr/local/etc/gitconfig", "/usr/etc/gitconfig", "/usr/local/etc/pip.conf", "/usr/local/etc/wgetrc", "/usr/local/etc/yarnrc",
	"/usr/local/share/maven/conf/settings.xml", "/usr/local/apache-maven*/conf/settings.xml", "/etc/maven/settings.xml",
	"/etc/gradle/gradle.properties", "/etc/R/Renviron*", "/etc/php/*/cli/php.ini", "/etc/php.ini",
}

// systemHide are places below the system's folders that are never shown.
var systemHide = []string{"/usr/local/etc/ssl/private", "/usr/local/ssl/private", "/usr/local/etc/openssl/private", "/usr/local/lib/docker/config.json"}
