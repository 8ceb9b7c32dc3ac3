import { createDevelopmentCertificates } from "@diskmesh/pki";
import { installCpi, powerOffAll, powerOnAll } from "@diskmesh/process-cpi";
import { makeDeviceFiles } from "./device-files.js";
import { writeEndpoints } from "./endpoints.js";
import { DEPLOYMENT, HOSTS, type MeshLayout } from "./layout.js";
import { meshMembers } from "./members.js";
import { Mesh } from "./mesh.js";
import { checkNatsServer } from "./nats-server.js";
import { checkPorts } from "./ports.js";
import { writeConfigs } from "./service-configs.js";
import { StateFolder } from "./state-folder.js";
import { makeTablets } from "./tablets.js";

export interface LocalMeshOptions {
  readonly layout: MeshLayout;
  /** Deletes the state of earlier runs first. */
  readonly fresh: boolean;
  /** Called with one line of text for each event, e.g. when a process has ended unexpectedly. */
  readonly report: (line: string) => void;
  /** Aborts the start. */
  readonly signal: AbortSignal;
}

/** A running mesh on this machine. Disposing of it stops every process. */
export class LocalMesh implements AsyncDisposable {
  private constructor(
    readonly mesh: Mesh,
    private readonly state: StateFolder,
    private readonly vmsFolder: string,
  ) {}

  static async start({ layout, fresh, report, signal }: LocalMeshOptions): Promise<LocalMesh> {
    // Checks the ports before anything is deleted or written, because another mesh may be running with this state.
    await checkPorts(layout);
    const state = await StateFolder.open(layout, { fresh });
    const mesh = new Mesh(report);
    const local = new LocalMesh(mesh, state, layout.processCpi.stateFolder);
    try {
      const hostIds = HOSTS.map(({ hostId }) => hostId);
      await createDevelopmentCertificates(layout.certFolder, { hostIds, csiScope: DEPLOYMENT });
      installCpi(layout.processCpi.execPath);
      await makeDeviceFiles(layout);
      await writeConfigs(layout);
      await makeTablets(layout, signal);
      await checkNatsServer();
      const { nats, services, agents } = meshMembers(layout);
      await mesh.start([nats], signal);
      await Promise.all(services.map((service) => mesh.start([service], signal)));
      await mesh.start(agents, signal);
      await powerOnAll(layout.processCpi.stateFolder);
      await writeEndpoints(layout);
      return local;
    } catch (error) {
      await local[Symbol.asyncDispose]();
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mesh.stop();
    await powerOffAll(this.vmsFolder);
    await this.state[Symbol.asyncDispose]();
  }
}
