import { DiskRegistryServiceDefinition, HostState } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { CONTROLS, PATIENCE } from "./away-scene.js";
import type { DocumentedMesh } from "./documented-mesh.js";
import { pkiFiles } from "./sections.js";

const DEADLINE_MS = 60_000;

/** A WatchHosts call, which sends nothing while the hosts do not change. */
export class WatchedHosts implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #client;
  /** Time at which each host was reported UNAVAILABLE. */
  readonly #unavailableAtMs = new Map<string, number>();
  #isTold = false;
  /** Resolves with the time at which the watch broke, because the registry is away. */
  readonly ended: Promise<number>;

  private constructor(mesh: DocumentedMesh) {
    this.#client = createClient(DiskRegistryServiceDefinition, {
      address: CONTROLS.map((machine) => `${mesh.address(machine)}:7030`),
      tls: pkiFiles(mesh, "operator-alice"),
      serverRole: "disk-registry",
      defaultDeadlineMs: DEADLINE_MS,
    });
    this.ended = this.#watch()
      .catch(() => {})
      .then(() => Date.now());
  }

  static async begin(mesh: DocumentedMesh): Promise<WatchedHosts> {
    const watched = new WatchedHosts(mesh);
    await eventually(() => watched.#isTold, PATIENCE);
    return watched;
  }

  /** Resolves with the time at which the host was reported UNAVAILABLE. */
  async becomesUnavailable(host: string): Promise<number> {
    await eventually(() => this.#unavailableAtMs.has(host), PATIENCE);
    return this.#unavailableAtMs.get(host) ?? 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.ended;
    this.#client.close();
  }

  async #watch(): Promise<void> {
    for await (const { update } of this.#client.watchHosts({}, { signal: this.#stop.signal })) {
      this.#isTold = true;
      if (update?.$case === "host" && update.value.state === HostState.UNAVAILABLE)
        this.#unavailableAtMs.set(update.value.hostId, Date.now());
    }
  }
}
