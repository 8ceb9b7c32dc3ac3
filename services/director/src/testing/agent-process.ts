import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { TestCertificates } from "@diskmesh/testkit";
import { TestAgent } from "./test-agent.js";

interface Started {
  readonly agentId: string;
  readonly natsAddress: string;
  readonly files: ReturnType<TestCertificates["files"]>;
  readonly addDelayMs: number;
}

/** The agent's state, as reported by its process. */
interface AgentReport {
  readonly links: readonly string[];
  readonly calls: readonly string[];
}

/** A test agent in its own process, which signals can pause and resume. */
export class AgentProcess {
  private constructor(private readonly child: ChildProcess) {}

  static async start(
    agentId: string,
    natsAddress: string,
    certs: TestCertificates,
    { addDelayMs }: Pick<Started, "addDelayMs">,
  ): Promise<AgentProcess> {
    const started: Started = { agentId, natsAddress, files: certs.files(`disk-agent-${agentId}`), addDelayMs };
    const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(started)]);
    const agent = new AgentProcess(child);
    await once(child, "message");
    return agent;
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.child.kill(signal);
  }

  async report(): Promise<AgentReport> {
    const said = once(this.child, "message");
    this.child.send("report");
    return (await said)[0] as AgentReport;
  }

  async kill(): Promise<void> {
    const exited = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exited;
  }
}

const [text] = process.argv.slice(2);
if (process.argv[1] === fileURLToPath(import.meta.url) && text !== undefined) {
  const { agentId, natsAddress, files, addDelayMs } = JSON.parse(text) as Started;
  const agent = new TestAgent(agentId, natsAddress, { files: () => files });
  agent.addDelayMs = addDelayMs;
  agent.heartbeatIntervalMs = 200;
  const report = () => process.send?.({ links: [...agent.links.keys()], calls: agent.calls } satisfies AgentReport);
  process.on("message", report);
  process.on("disconnect", () => process.exit(0));
  await agent.start();
  report();
}
