// Code generated from default.yaml by TestBuiltinIsDefault. DO NOT EDIT.

// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package policy

// builtinFile is default.yaml without its examples, so that a server need not
// read it at every start.
var builtinFile = policyFile{
	Version:   1,
	Approvals: Approvals{Expire: 120000000000, Self: false},
	Rules: []ruleFile{
		{
			Name:   "secrets_examples",
			Action: Allow,
			Reads: []string{
				"**/.env.{example,sample,template,dist}",
			},
		},
		{
			Name:   "secrets",
			Action: Ask,
			Reads: []string{
				".env",
				".env.*",
				".envrc",
				"*.{pem,key,p12,pfx,jks,keystore}",
				"id_{rsa,dsa,ecdsa,ed25519}",
				".ssh/",
				".aws/",
				".gnupg/",
				".kube/",
				".netrc",
				".npmrc",
				".pypirc",
				".git-credentials",
				"~/.docker/config.json",
				"~/.config/{gcloud,gh}/",
			},
			Reason: "This looks like a secret. Go on without it if you can; a person has to approve reading it.",
		},
		{
			Name:   "runs_later",
			Action: Ask,
			Writes: []string{
				".github/workflows/",
				".gitlab-ci.yml",
				".circleci/",
				".vscode/",
				".idea/",
				".devcontainer/",
				".envrc",
				"~/.gitconfig",
				"~/.config/git/",
			},
			Reason: "Other programs run what is written there, so a person has to approve it.",
		},
		{
			Name:   "publish",
			Action: Ask,
			Commands: []string{
				"git push",
				"npm publish",
				"pnpm publish",
				"yarn publish",
				"yarn npm publish",
				"cargo publish",
				"twine upload",
				"uv publish",
				"poetry publish",
				"gem push",
				"mvn deploy",
				"docker push",
				"podman push",
				"gh release",
				"gh pr merge",
				"helm install",
				"helm upgrade",
				"kubectl apply",
				"kubectl delete",
				"terraform apply",
				"terraform destroy",
			},
			Network: []string{
				"hosts",
				"open",
			},
			Reason: "Others would see this or be touched by it, so a person has to approve it.",
		},
		{
			Name:   "network",
			Action: Ask,
			Commands: []string{
				"curl",
				"wget",
				"nc",
				"ncat",
				"netcat",
				"socat",
				"telnet",
				"ftp",
				"sftp",
				"scp",
				"ssh",
				"rsync",
			},
			Network: []string{
				"hosts",
				"open",
			},
			Reason: "This talks to other machines, so a person has to approve it.",
		},
		{
			Name:   "irreversible",
			Action: Ask,
			Commands: []string{
				"git filter-branch",
				"git update-ref",
				"git reflog expire",
			},
			Reason: "This rewrites what the repository could be restored from, so a person has to approve it.",
		},
		{
			Name:   "privileges",
			Action: Deny,
			Commands: []string{
				"sudo",
				"doas",
				"su",
				"shutdown",
				"reboot",
				"systemctl",
			},
			Reason: "Commands can neither gain privileges nor manage the machine here: do without, or tell the user what to run.",
		},
	},
}
