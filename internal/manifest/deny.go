package manifest

// DefaultDeny is what no change may touch when scope.deny is omitted: the policy itself and the files that
// make a forge run something or ask somebody.
func DefaultDeny() []string {
	return []string{
		"sallyport.yaml", ".github/**", ".gitlab-ci.yml", ".gitlab/**", ".gitea/**", ".forgejo/**", ".circleci/**",
		".buildkite/**", ".woodpecker/**", ".woodpecker.yml", ".woodpecker.yaml", ".drone.yml", ".travis.yml", "appveyor.yml", ".cirrus.yml",
		".ci/**", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile", "CODEOWNERS", "docs/CODEOWNERS",
	}
}
