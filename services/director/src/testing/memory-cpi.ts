import { setTimeout as sleep } from "node:timers/promises";
import { type CallContext as CpiContext, CpiServiceService } from "@diskmesh/api/cpi";
import { InvalidStateError, NotFoundError, NotImplementedError, ResourceExhaustedError } from "@diskmesh/domain";
import { type CallContext, DEFAULT_RPC_SERVER_LIMITS, type Handlers, RpcServer, type TlsFiles } from "@diskmesh/rpc";

import { Gate } from "./gate.js";

type Method = keyof typeof CpiServiceService;

interface MemoryVm {
  readonly vmCid: string;
  readonly az: string;
  readonly agentId: string;
}

interface MemoryDisk {
  readonly diskCid: string;
  readonly sizeMib: number;
  readonly cloudProperties: object;
  vmCid: string;
  metadata: object;
}

class VmNotFoundError extends NotFoundError {
  override readonly name = "VmNotFoundError";
}
class DiskNotFoundError extends NotFoundError {
  override readonly name = "DiskNotFoundError";
}
class DiskNotAttachedError extends InvalidStateError {
  override readonly name = "DiskNotAttachedError";
}
class NoDiskSpaceError extends ResourceExhaustedError {
  override readonly name = "NoDiskSpaceError";
}

/** An infrastructure in memory behind the real CpiService, which tests can stop and make fail at any call. */
export class MemoryCpi {
  readonly vms = new Map<string, MemoryVm>();
  readonly disks = new Map<string, MemoryDisk>();
  /** Every call that got an effect or found it, e.g. "createDisk disk-1". */
  readonly calls: string[] = [];
  readonly fences: number[] = [];
  capacityMib = 10_000;
  readonly #failures: { readonly method: Method; readonly error: Error; readonly after: boolean }[] = [];
  readonly #gates: { readonly method: Method; readonly after: boolean; readonly gate: Gate }[] = [];
  #generation = 0;
  #active = 0;

  constructor(private readonly hostIds: readonly string[]) {}

  /** The next call of the method stops before, or after, its effect. */
  gate(method: Method, when: "before" | "after"): Gate {
    const gate = new Gate();
    this.#gates.push({ method, after: when === "after", gate });
    return gate;
  }

  /** The next call of the method fails before, or after, its effect. */
  failNext(method: Method, error: Error, when: "before" | "after" = "before"): void {
    this.#failures.push({ method, error, after: when === "after" });
  }

  async serve(tls: TlsFiles, port = 0): Promise<{ readonly server: RpcServer; readonly port: number }> {
    const server = new RpcServer({ tls, limits: { ...DEFAULT_RPC_SERVER_LIMITS, drainTimeoutMs: 100 } });
    server.addService(CpiServiceService, { roles: ["director"], handlers: this.#handlers() });
    const bound = await server.listen({ host: "127.0.0.1", port });
    server.setServing(true);
    return { server, port: bound };
  }

  #handlers(): Handlers<typeof CpiServiceService> {
    const absent = async (): Promise<never> => {
      throw new NotImplementedError("not in this CPI");
    };
    return {
      info: absent,
      listCpis: absent,
      hasVm: absent,
      hasDisk: absent,
      getDisks: absent,
      createVm: this.#method("createVm", (request) => {
        const vmCid = `vm-${request.agentId}`;
        const known = this.vms.get(vmCid);
        const free = this.hostIds.find((hostId) => ![...this.vms.values()].some((vm) => vm.agentId === hostId));
        const agentId = known?.agentId ?? free;
        if (agentId === undefined) throw new ResourceExhaustedError(`no host is free in az ${request.az}`);
        this.vms.set(vmCid, { vmCid, az: request.az, agentId });
        return { response: { vmCid, networks: {}, agentId }, about: vmCid };
      }),
      deleteVm: this.#method("deleteVm", ({ vmCid }) => {
        this.#vm(vmCid);
        for (const disk of this.disks.values())
          if (disk.vmCid === vmCid) throw new InvalidStateError(`${vmCid} has disks`);
        this.vms.delete(vmCid);
        return { response: {}, about: vmCid };
      }),
      createDisk: this.#method("createDisk", ({ token, sizeMib, cloudProperties = {} }) => {
        const diskCid = `disk-${token}`;
        const usedMib = [...this.disks.values()].reduce((sum, disk) => sum + disk.sizeMib, 0);
        if (!this.disks.has(diskCid)) {
          if (usedMib + sizeMib > this.capacityMib) throw new NoDiskSpaceError("there is no space left");
          this.disks.set(diskCid, { diskCid, sizeMib, cloudProperties, vmCid: "", metadata: {} });
        }
        return { response: { diskCid }, about: diskCid };
      }),
      deleteDisk: this.#method("deleteDisk", ({ diskCid }) => {
        if (this.#disk(diskCid).vmCid !== "") throw new InvalidStateError(`${diskCid} is attached`);
        this.disks.delete(diskCid);
        return { response: {}, about: diskCid };
      }),
      attachDisk: this.#method("attachDisk", ({ vmCid, diskCid }) => {
        const disk = this.#disk(diskCid);
        this.#vm(vmCid);
        if (disk.vmCid !== "" && disk.vmCid !== vmCid)
          throw new InvalidStateError(`${diskCid} is attached to ${disk.vmCid}`);
        disk.vmCid = vmCid;
        return { response: { diskHint: { path: `/exports/${diskCid}.sock` } }, about: diskCid };
      }),
      detachDisk: this.#method("detachDisk", ({ vmCid, diskCid }) => {
        const disk = this.#disk(diskCid);
        if (disk.vmCid !== vmCid) throw new DiskNotAttachedError(`${diskCid} is not attached to ${vmCid}`);
        disk.vmCid = "";
        return { response: {}, about: diskCid };
      }),
      setDiskMetadata: this.#method("setDiskMetadata", ({ diskCid, metadata = {} }) => {
        this.#disk(diskCid).metadata = metadata;
        return { response: {}, about: diskCid };
      }),
      fence: async ({ directorGeneration }) => {
        this.#generation = Math.max(this.#generation, directorGeneration);
        while (this.#active > 0) await sleep(5);
        this.fences.push(directorGeneration);
        return {};
      },
    };
  }

  #method<Request extends { context: CpiContext | undefined }, Response>(
    method: Method,
    effect: (request: Request) => { readonly response: Response; readonly about: string },
  ): (request: Request, call: CallContext) => Promise<Response> {
    return async (request) => {
      if ((request.context?.directorGeneration ?? 0) < this.#generation)
        throw new InvalidStateError("outdated director");
      this.#active++;
      try {
        await this.#interfere(method, false);
        const { response, about } = effect(request);
        this.calls.push(`${method} ${about}`);
        await this.#interfere(method, true);
        return response;
      } finally {
        this.#active--;
      }
    };
  }

  async #interfere(method: Method, after: boolean): Promise<void> {
    const gateIndex = this.#gates.findIndex((each) => each.method === method && each.after === after);
    const [gated] = gateIndex < 0 ? [] : this.#gates.splice(gateIndex, 1);
    await gated?.gate.pass();
    const failureIndex = this.#failures.findIndex((each) => each.method === method && each.after === after);
    const [failure] = failureIndex < 0 ? [] : this.#failures.splice(failureIndex, 1);
    if (failure) throw failure.error;
  }

  #vm(vmCid: string): MemoryVm {
    const vm = this.vms.get(vmCid);
    if (!vm) throw new VmNotFoundError(`there is no VM ${vmCid}`);
    return vm;
  }

  #disk(diskCid: string): MemoryDisk {
    const disk = this.disks.get(diskCid);
    if (!disk) throw new DiskNotFoundError(`there is no disk ${diskCid}`);
    return disk;
  }
}
