// Package policyfile keeps policies in a JSON file, by name, so that they change
// without a restart.
//
//	{
//		"web":    {"idle_grace": "30m", "max_lifetime": "12h", "slack": "3m"},
//		"mobile": {"idle_grace": "30d", "max_lifetime": "90d", "slack": "3d"}
//	}
//
// What stands under "stores" is no policy: there the command slidingttl finds stores by name.
//
// A store per name is made with the policy that the file has at the start, and given
// every later one:
//
//	f, err := policyfile.Open("policies.json", "web", "mobile")
//	...
//	p, _ := f.Policy("web")
//	web, err := slidingttl.New(d, p, nil)
//	...
//	go f.Follow(ctx, map[string]func(slidingttl.Policy) error{
//		"web":    web.SetPolicy,
//		"mobile": mobile.SetPolicy,
//	}, nil)
//
// A store of many tenants looks its policies up instead. The names given to Open are
// never missing, so that one of them can be the policy of all tenants without one:
//
//	f, err := policyfile.Open("tenants.json", "default")
//	...
//	store, err := slidingttl.New(d, p, &slidingttl.Options[Session]{
//		PolicyFor: func(key string) slidingttl.Policy {
//			p, ok := f.Policy(tenantOf(key))
//			if !ok {
//				p, _ = f.Policy("default")
//			}
//			return p
//		},
//	})
//	...
//	go f.Follow(ctx, nil, nil)
//
// # Whole or not at all
//
// A file takes effect if all of it can be read, every policy in it is valid, every name
// that the program uses is there, and every function has applied its policy. If one fails,
// the functions before it get their former policy again. The last good file stays in force,
// and Options.OnError is called.
//
// The file is read every Options.Interval and compared by content. This also works if the
// file is a link that is moved, as for Kubernetes' ConfigMaps, and if the file system
// reports no changes. If a program writes the file in place, a half-written file is
// invalid, and is read again at the next interval. To avoid that, write a new file and
// rename it.
package policyfile
