/**
 * The scope at which a caller's rights on dynamic disks end: a name, which covers the deployment of that name, or teams,
 * which cover the deployments that they own. Undefined where rights do not end.
 */
export type Scope = { readonly name: string } | { readonly teams: readonly string[] };
