import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Task } from "@diskmesh/api/director";
import { TestAgent } from "@diskmesh/director/testing";
import type { PlacedMesh } from "../mesh/plan.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { FileCloud } from "./file-cloud.js";

const DISPATCHERS = ["dispatcher-1", "dispatcher-2"];
const CLOUD_CONFIG = "azs:\n- name: z1\ndisk_types:\n- {name: fast, disk_size: 1024}\n";
const AGENT_LOOK_MS = 50;

export interface FileFleetOptions {
  /** Names of the directors. */
  readonly directors: readonly string[];
  /** Their `tablet` config; a folder when absent. */
  readonly tablet?: object;
}

/**
 * Directors and two dispatchers as processes that tests kill. The infrastructure is a folder, and the VMs' agents run
 * in this process.
 */
export class FileFleet implements AsyncDisposable {
  /** Agents by agent id. */
  readonly agents = new Map<string, TestAgent>();
  #closing = false;
  readonly #lookingAfterAgents: Promise<void>;

  private constructor(
    readonly mesh: TestMesh,
    readonly cloud: FileCloud,
  ) {
    this.#lookingAfterAgents = this.#lookAfterAgents();
  }

  static async start({ directors, tablet }: FileFleetOptions): Promise<FileFleet> {
    let cloud: FileCloud | undefined;
    const dispatcher = ({ folder }: PlacedMesh) => {
      cloud ??= new FileCloud(join(folder, "cloud"));
      const cpis = [{ name: "files", type: "files", execPath: cloud.execPath }];
      return { cpis, executables: { jobsFolder: folder, maxConcurrentCalls: 20 } };
    };
    // Any of several directors may lead.
    const waitFor = directors.length === 1 ? "serving" : "listening";
    const mesh = await TestMesh.start({
      processes: [
        ...DISPATCHERS.map((name) => ({ service: "cpi-dispatcher", name, config: dispatcher }) as const),
        ...directors.map(
          (name) =>
            ({
              service: "director",
              name,
              config: { tuning: { cpi: { retryTimeoutMs: 120_000 } } },
              waitFor,
            }) as const,
        ),
      ],
      vmAgents: true,
      tablet: tablet && (() => tablet),
      deadlineMs: 60_000,
    });
    const fleet = new FileFleet(mesh, cloud as FileCloud);
    try {
      await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
      return fleet;
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts a deployment with one group of this number of VMs. */
  deploy(name: string, instances: number, wait = false): Promise<{ readonly task?: Task | undefined }> {
    const manifest = `name: ${name}\ninstance_groups:\n- {name: db, instances: ${instances}, azs: [z1]}\n`;
    return this.mesh.clients.deployments.deploy({ manifest, wait });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    await this.#lookingAfterAgents;
    await Promise.all([...this.agents.values()].map((agent) => agent.stop()));
    await this.mesh[Symbol.asyncDispose]();
  }

  /** Starts and stops agents, so that each existing VM has one. */
  async #lookAfterAgents(): Promise<void> {
    const files = () => this.mesh.vmAgentFiles;
    while (!this.#closing) {
      const wanted = new Set(this.cloud.vms().values());
      for (const agentId of wanted) {
        if (agentId === "" || this.agents.has(agentId)) continue;
        const agent = new TestAgent(agentId, this.mesh.nats.address, { files });
        this.agents.set(agentId, agent);
        await agent.start();
      }
      for (const [agentId, agent] of this.agents) {
        if (wanted.has(agentId)) continue;
        this.agents.delete(agentId);
        await agent.stop();
      }
      await sleep(AGENT_LOOK_MS);
    }
  }
}
