import type { BoshCommand } from "../explain/explain-vm.js";
import type { FollowedTask, HttpClient } from "./http-client.js";

/** States that the commands request for an instance. */
const STATES: Readonly<Record<Exclude<BoshCommand, "cloud-check" | "unignore">, string>> = {
  recreate: "recreate",
  start: "started",
  "stop --hard": "detached",
};
/** Resolution of a problem; null stands for the problem's default. */
const RECREATE = "recreate_vm";
const LINE = /^bosh -d (\S+) ([a-z-]+(?: --[a-z]+)?)(?: (\w[^/ ]*)\/(\S+))?$/;

/**
 * Sends the requests that the stock bosh CLI sends for a command line, and follows their tasks. Recreates VMs for
 * cloud-check. Throws for a line that the CLI would not accept, and for a task that fails.
 */
export async function typeBosh(http: HttpClient, line: string): Promise<void> {
  const [, deployment, command = "", group, id] = LINE.exec(line) ?? [];
  const path = `/deployments/${deployment}`;
  if (command === "cloud-check" && group === undefined) return cloudCheck(http, path);
  if (command === "unignore" && group !== undefined) {
    const body = JSON.stringify({ ignore: false });
    const { status } = await http.send("PUT", `${path}/instance_groups/${group}/${id}/ignore`, { body });
    if (status !== 200) throw new Error(`${line} was answered with ${status}`);
    return;
  }
  const state = Object.entries(STATES).find(([name]) => name === command)?.[1];
  if (state === undefined || group === undefined) throw new Error(`the bosh CLI has no command ${line}`);
  done(line, await http.task("PUT", `${path}/jobs/${group}/${id}?state=${state}`));
}

async function cloudCheck(http: HttpClient, path: string): Promise<void> {
  done("scan", await http.task("POST", `${path}/scans`, { headers: { "content-type": "application/json" } }));
  const problems = (await http.json(`${path}/problems`)) as {
    readonly id: number;
    readonly resolutions: readonly { readonly name: string }[];
  }[];
  if (problems.length === 0) throw new Error("cloud-check found no problem");
  const answers = problems.map(({ id, resolutions }): [number, string | null] => {
    return [id, resolutions.some(({ name }) => name === RECREATE) ? RECREATE : null];
  });
  const body = JSON.stringify({ resolutions: Object.fromEntries(answers) });
  done("resolve", await http.task("PUT", `${path}/problems`, { body }));
}

function done(what: string, { task: { state, result } }: FollowedTask): void {
  if (state !== "done") throw new Error(`${what} ended as ${state}: ${result}`);
}
