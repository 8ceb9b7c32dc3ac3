import type { CallContext, FenceRequest, SetCpiConfigRequest } from "@diskmesh/api/cpi";
import { type MemoryCloud, MemoryCpi } from "@diskmesh/cpi/testing";
import { OfferedCpi, TestDispatcher } from "@diskmesh/cpi-dispatcher/testing";
import type { TestCertificates } from "@diskmesh/testkit";

/** A real dispatcher whose CPIs are in memory. Records the requests of directors, whatever their outcome. */
export class MemoryDispatcher {
  readonly contexts: { readonly method: string; readonly context: CallContext }[] = [];
  /** The generations of received fence requests. */
  readonly fences: number[] = [];
  /** The received cpi-configs. */
  readonly told: SetCpiConfigRequest[] = [];
  #dispatcher: TestDispatcher | undefined;

  constructor(
    private readonly certificates: TestCertificates,
    private readonly cloud: MemoryCloud,
  ) {}

  get port(): number {
    return this.#dispatcher?.port ?? 0;
  }

  /** Starts the dispatcher. After `stop` it starts at the same port, like a restarted process. */
  async start(): Promise<void> {
    const own = new OfferedCpi("memory", "memory", new MemoryCpi(this.cloud));
    this.#dispatcher = await new TestDispatcher(this.certificates, [own], {
      port: this.port,
      makeCpi: ({ name, type, migratedFrom }) =>
        new OfferedCpi(name, type, new MemoryCpi(this.cloud, name, migratedFrom), migratedFrom),
      onRequest: (method, request) => this.#note(method, request),
    }).start();
  }

  async stop(): Promise<void> {
    await this.#dispatcher?.close();
  }

  forgetConfigs(): void {
    this.#dispatcher?.forgetConfigs();
  }

  #note(method: string, request: object): void {
    if (method === "fence") this.fences.push((request as FenceRequest).directorGeneration);
    if (method === "setCpiConfig") this.told.push(request as SetCpiConfigRequest);
    const { context } = request as { readonly context?: CallContext };
    if (context) this.contexts.push({ method, context });
  }
}
