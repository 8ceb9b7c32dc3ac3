import { hashPassword } from "@diskmesh/pki/password-hash";
import { freePort } from "@diskmesh/testkit";
import { HttpClient } from "./http-client.js";
import { type DirectorChange, TestDirector } from "./test-director.js";

const USERS: Readonly<Record<string, readonly string[]>> = {
  admin: ["bosh.admin"],
  reader: ["bosh.read"],
  disks: ["create", "attach", "detach", "delete", "list"].map((right) => `bosh.dynamic-disks.${right}`),
  creator: ["bosh.dynamic-disks.create"],
  nobody: [],
};

export interface HttpDirector {
  readonly director: TestDirector;
  /** Sends requests as admin. */
  readonly http: HttpClient;
  as(user: string): HttpClient;
}

/** Returns users in the config's format. The password of a user is "pw-" and the name. */
export function httpUsers(scopesOf: Readonly<Record<string, readonly string[]>>): Promise<object[]> {
  const entries = Object.entries(scopesOf);
  return Promise.all(
    entries.map(async ([name, scopes]) => ({ name, passwordHash: await hashPassword(`pw-${name}`), scopes })),
  );
}

/** Starts a director process with an HTTPS API. */
export async function startHttpDirector(http: object = {}, overrides: DirectorChange = {}): Promise<HttpDirector> {
  const port = await freePort();
  const users = await httpUsers(USERS);
  const director = await TestDirector.start({ http: { listen: { port }, users, ...http }, ...overrides });
  const as = (user: string): HttpClient => new HttpClient(director.certs, port, `${user}:pw-${user}`);
  return { director, http: as("admin"), as };
}
