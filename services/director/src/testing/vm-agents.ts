import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MemoryCloud } from "@diskmesh/cpi/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import type { MbusCert } from "../agents/agent-certificates.js";
import { TestAgent } from "./test-agent.js";
import type { TestDirector } from "./test-director.js";

type MemoryVm = MemoryCloud["vms"] extends Map<string, infer Vm> ? Vm : never;

/** An agent that is configured by the env of its VM. */
export class VmAgent {
  readonly folder = temporaryFolder();
  readonly agent: TestAgent;

  constructor(
    readonly vm: MemoryVm,
    director: TestDirector,
  ) {
    this.use(certOf(vm));
    this.agent = new TestAgent(vm.agentId, director.nats.address, { files: () => this.files });
    this.agent.heartbeatIntervalMs = 500;
    this.agent.onSettings = (settings) => this.use((settings as { mbus: { cert: MbusCert } }).mbus.cert);
  }

  get files() {
    const file = (name: string) => join(this.folder, `${name}.pem`);
    return { caFile: file("ca"), certFile: file("cert"), keyFile: file("key") };
  }

  /** Replaces the agent's certificate from its next start on. */
  use(cert: MbusCert): void {
    writeFileSync(this.files.caFile, cert.ca);
    writeFileSync(this.files.certFile, cert.certificate);
    writeFileSync(this.files.keyFile, cert.private_key, { mode: 0o600 });
  }
}

export function certOf(vm: MemoryVm): MbusCert {
  return (vm.request.env as { bosh: { mbus: { cert: MbusCert } } }).bosh.mbus.cert;
}

/**
 * Runs `make` and starts an agent for each of the `count` VMs that it creates. Returns the agents in the order of their
 * VMs' creation.
 */
export async function withAgents(
  director: TestDirector,
  count: number,
  make: () => Promise<unknown>,
): Promise<VmAgent[]> {
  const before = new Set(director.cpi.vms.keys());
  const making = make();
  const agents: VmAgent[] = [];
  making.catch(() => {});
  while (agents.length < count) {
    const vm = await eventually(() => {
      const found = [...director.cpi.vms.values()].find(({ vmCid }) => !before.has(vmCid));
      if (found === undefined) throw new Error("no other VM yet");
      return found;
    });
    before.add(vm.vmCid);
    const made = new VmAgent(vm, director);
    agents.push(made);
    await made.agent.start();
  }
  await making;
  return agents;
}
