import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type CpiConfig,
  CallContext as CpiContext,
  CpiServiceService,
  type CreateVmRequest,
  type WatchCpiLogResponse,
} from "@diskmesh/api/cpi";
import {
  CancelledError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { type CallContext, DEFAULT_RPC_SERVER_LIMITS, type Handlers, RpcServer, type TlsFiles } from "@diskmesh/rpc";

import { Gate } from "./gate.js";

type Method = keyof typeof CpiServiceService;
const ANY = "*";

interface MemoryVm {
  readonly vmCid: string;
  readonly az: string;
  readonly agentId: string;
  readonly cpi: string;
  readonly request: CreateVmRequest;
  metadata: object;
}

interface MemoryDisk {
  readonly diskCid: string;
  readonly cpi: string;
  sizeMib: number;
  cloudProperties: object;
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
class CpiUnusableError extends InvalidStateError {
  override readonly name = "CpiUnusableError";
}
class CpiConfigUnknownError extends InvalidStateError {
  override readonly name = "CpiConfigUnknownError";
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
  /** Of every call, whatever became of it. */
  readonly contexts: { readonly method: Method; readonly context: CpiContext }[] = [];
  /** Cid -> what it was made of, where. */
  readonly stemcells = new Map<string, { readonly cpi: string; readonly image: string }>();
  /** By version; forgotten when the test says so, as when a dispatcher restarts. */
  readonly cpiConfigs = new Map<string, readonly CpiConfig[]>();
  /** By CPI; 2 for those that are not in it. */
  readonly apiVersions = new Map<string, number>();
  /** By CPI; any for those that are not in it. */
  readonly formats = new Map<string, readonly string[]>();
  readonly lacking = new Set<Method>();
  /** These need no stemcells. */
  readonly withoutStemcells = new Set<string>();
  /** createVm and createDisk find what they made before. */
  findsByToken = true;
  /** These fail to make stemcells. */
  readonly brokenCpis = new Set<string>();
  /** Written to the log of each call. */
  noise: readonly string[] = [];
  readonly #logs = new Map<string, (line: string) => void>();
  capacityMib = 10_000;
  readonly #failures: { readonly method: Method; readonly error: Error; readonly after: boolean }[] = [];
  readonly #gates: { readonly method: Method; readonly after: boolean; readonly gate: Gate }[] = [];
  /** Whether calls end when the director says so, as a dispatcher ends a process. */
  endsCalls = true;
  readonly #underWay = new Map<AbortController, string>();
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

  #another(count: number): string {
    return this.findsByToken ? "" : `-${count + 1}`;
  }

  /** Stemcell formats that a CPI takes overlap with those of the stemcell, or one of both is not known. */
  #takes(cpi: string, formats: readonly string[]): boolean {
    const taken = this.formats.get(cpi) ?? [];
    return taken.length === 0 || formats.length === 0 || taken.some((format) => formats.includes(format));
  }

  /** As the contract says: the recorded one, or the az's; under its present name. */
  #cpiOf(method: Method, context: CpiContext): string {
    const { cpiConfigVersion: version } = context;
    const wanted = context.cpi === "" ? context.azCpi : context.cpi;
    if (version === "") return wanted;
    const cpis = this.cpiConfigs.get(version);
    if (cpis === undefined) throw new CpiConfigUnknownError(`cpi-config ${version} is not known here`);
    if (method === "createStemcell" && wanted === "") return ANY;
    const found = cpis.find((cpi) => cpi.name === wanted) ?? cpis.find((cpi) => cpi.migratedFrom.includes(wanted));
    if (found === undefined) throw new CpiUnusableError(`CPI '${wanted}' not found in cpi-config`);
    return found.name;
  }

  /** Names under which a thing may be recorded that is this CPI's now. */
  #owns(cpi: string, recorded: string, context: CpiContext): boolean {
    const definition = this.cpiConfigs.get(context.cpiConfigVersion)?.find((each) => each.name === cpi);
    return cpi === recorded || (definition?.migratedFrom.includes(recorded) ?? false);
  }

  async *#watchLog(logId: string, signal: AbortSignal): AsyncGenerator<WatchCpiLogResponse> {
    const lines: string[] = [];
    let wake: () => void = () => {};
    this.#logs.set(logId, (line) => {
      lines.push(line);
      wake();
    });
    signal.addEventListener("abort", () => wake());
    while (!signal.aborted) {
      for (const line of lines.splice(0)) yield { line };
      if (lines.length === 0 && !signal.aborted)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  }

  #handlers(): Handlers<typeof CpiServiceService> {
    const absent = async (): Promise<never> => {
      throw new NotImplementedError("not in this CPI");
    };
    return {
      listCpis: absent,
      hasDisk: absent,
      getDisks: absent,
      snapshotDisk: absent,
      deleteSnapshot: absent,
      rebootVm: absent,
      calculateVmCloudProperties: absent,
      watchCpiLog: ({ logId }, { signal }) => this.#watchLog(logId, signal),
      setCpiConfig: async ({ cpiConfigVersion, cpis }) => {
        if (cpiConfigVersion === "") this.cpiConfigs.clear();
        else this.cpiConfigs.set(cpiConfigVersion, cpis);
        return {};
      },
      info: this.#method("info", (_, cpi) => ({
        response: {
          apiVersion: this.apiVersions.get(cpi) ?? 2,
          stemcellFormats: [...(this.formats.get(cpi) ?? [])],
          findsByToken: this.findsByToken,
        },
        about: null,
      })),
      createStemcell: this.#stemcellMethod(),
      deleteStemcell: this.#method("deleteStemcell", ({ stemcellCid }) => {
        if (!this.stemcells.delete(stemcellCid)) throw new NotFoundError(`there is no stemcell ${stemcellCid}`);
        return { response: {}, about: stemcellCid };
      }),
      setVmMetadata: this.#method("setVmMetadata", ({ vmCid, metadata = {} }, cpi, context) => {
        this.#vm(vmCid, cpi, context).metadata = metadata;
        return { response: {}, about: vmCid };
      }),
      resizeDisk: this.#method("resizeDisk", ({ diskCid, sizeMib }, cpi, context) => {
        const disk = this.#disk(diskCid, cpi, context);
        if (disk.vmCid !== "") throw new InvalidStateError(`${diskCid} is attached`);
        disk.sizeMib = sizeMib;
        return { response: {}, about: diskCid };
      }),
      updateDisk: this.#method("updateDisk", ({ diskCid, sizeMib, cloudProperties = {} }, cpi, context) => {
        const disk = this.#disk(diskCid, cpi, context);
        if (disk.vmCid !== "") throw new InvalidStateError(`${diskCid} is attached`);
        const updated = { ...disk, diskCid: `${diskCid}u`, sizeMib, cloudProperties };
        this.disks.delete(diskCid);
        this.disks.set(updated.diskCid, updated);
        return { response: { diskCid: updated.diskCid }, about: diskCid };
      }),
      createVm: this.#method("createVm", (request, cpi) => {
        const vmCid = `vm-${request.agentId}${this.#another(this.vms.size)}`;
        const known = this.vms.get(vmCid);
        const free = this.hostIds.find((hostId) => ![...this.vms.values()].some((vm) => vm.agentId === hostId));
        const agentId = known?.agentId ?? free;
        if (agentId === undefined) throw new ResourceExhaustedError(`no host is free in az ${request.az}`);
        this.vms.set(vmCid, { vmCid, az: request.az, agentId, cpi, request, metadata: {} });
        const apiVersion = this.apiVersions.get(cpi) ?? 2;
        const usesRegistry = apiVersion < 2 || request.context?.stemcellApiVersion === 1;
        const networks = usesRegistry ? {} : (request.networks ?? {});
        return { response: { vmCid, networks, agentId, cpi, usesRegistry, apiVersion }, about: vmCid };
      }),
      hasVm: this.#method("hasVm", ({ vmCid }) => ({ response: { exists: this.vms.has(vmCid) }, about: null })),
      deleteVm: this.#method("deleteVm", ({ vmCid }, cpi, context) => {
        this.#vm(vmCid, cpi, context);
        for (const disk of this.disks.values())
          if (disk.vmCid === vmCid) throw new InvalidStateError(`${vmCid} has disks`);
        this.vms.delete(vmCid);
        return { response: {}, about: vmCid };
      }),
      createDisk: this.#method("createDisk", ({ token, sizeMib, cloudProperties = {} }, cpi) => {
        const diskCid = `disk-${token}${this.#another(this.disks.size)}`;
        const usedMib = [...this.disks.values()].reduce((sum, disk) => sum + disk.sizeMib, 0);
        if (!this.disks.has(diskCid)) {
          if (usedMib + sizeMib > this.capacityMib) throw new NoDiskSpaceError("there is no space left");
          this.disks.set(diskCid, { diskCid, cpi, sizeMib, cloudProperties, vmCid: "", metadata: {} });
        }
        return { response: { diskCid, cpi }, about: diskCid };
      }),
      deleteDisk: this.#method("deleteDisk", ({ diskCid }, cpi, context) => {
        if (this.#disk(diskCid, cpi, context).vmCid !== "") throw new InvalidStateError(`${diskCid} is attached`);
        this.disks.delete(diskCid);
        return { response: {}, about: diskCid };
      }),
      attachDisk: this.#method("attachDisk", ({ vmCid, diskCid }, cpi, context) => {
        const disk = this.#disk(diskCid, cpi, context);
        this.#vm(vmCid, cpi, context);
        if (disk.vmCid !== "" && disk.vmCid !== vmCid)
          throw new InvalidStateError(`${diskCid} is attached to ${disk.vmCid}`);
        disk.vmCid = vmCid;
        const old = (this.apiVersions.get(cpi) ?? 2) < 2 || context.stemcellApiVersion === 1;
        const diskHint = old ? undefined : { path: `/exports/${diskCid}.sock` };
        return { response: { diskHint }, about: diskCid };
      }),
      detachDisk: this.#method("detachDisk", ({ vmCid, diskCid }, cpi, context) => {
        const disk = this.#disk(diskCid, cpi, context);
        if (disk.vmCid !== vmCid) throw new DiskNotAttachedError(`${diskCid} is not attached to ${vmCid}`);
        disk.vmCid = "";
        return { response: {}, about: diskCid };
      }),
      setDiskMetadata: this.#method("setDiskMetadata", ({ diskCid, metadata = {} }, cpi, context) => {
        this.#disk(diskCid, cpi, context).metadata = metadata;
        return { response: {}, about: diskCid };
      }),
      endCalls: async ({ requestId }) => {
        const found = [...this.#underWay].filter(([, id]) => this.endsCalls && id === requestId);
        for (const [call] of found) call.abort(new CancelledError("its director ended it"));
        return { calls: found.length };
      },
      fence: async ({ directorGeneration }) => {
        if (directorGeneration < this.#generation) {
          throw new OutdatedError(`generation ${directorGeneration} is outdated`, {
            about: { leading_generation: String(this.#generation) },
          });
        }
        this.#generation = Math.max(this.#generation, directorGeneration);
        while (this.#active > 0) await sleep(5);
        this.fences.push(directorGeneration);
        return {};
      },
    };
  }

  #method<Request extends { context: CpiContext | undefined }, Response>(
    method: Method,
    effect: (
      request: Request,
      cpi: string,
      context: CpiContext,
    ) => { readonly response: Response; readonly about: string | null },
  ): (request: Request, call: CallContext) => Promise<Response> {
    return async (request) => {
      const context = request.context ?? CpiContext.fromPartial({});
      if (context.directorGeneration < this.#generation) throw new InvalidStateError("outdated director");
      this.#active++;
      const ending = new AbortController();
      this.#underWay.set(ending, context.requestId);
      try {
        this.contexts.push({ method, context });
        for (const line of this.noise) this.#logs.get(context.logId)?.(line);
        await this.#interfere(method, false, ending.signal);
        if (this.lacking.has(method)) throw new NotImplementedError(`this CPI has no ${method}`);
        const { response, about } = effect(request, context.unknownId ? ANY : this.#cpiOf(method, context), context);
        // What only looks is not among the calls that have an effect.
        if (about !== null) this.calls.push(`${method} ${about}`);
        await this.#interfere(method, true, ending.signal);
        return response;
      } finally {
        this.#underWay.delete(ending);
        this.#active--;
      }
    };
  }

  async #interfere(method: Method, after: boolean, ending: AbortSignal): Promise<void> {
    const gateIndex = this.#gates.findIndex((each) => each.method === method && each.after === after);
    const [gated] = gateIndex < 0 ? [] : this.#gates.splice(gateIndex, 1);
    await gated?.gate.pass(ending);
    const failureIndex = this.#failures.findIndex((each) => each.method === method && each.after === after);
    const [failure] = failureIndex < 0 ? [] : this.#failures.splice(failureIndex, 1);
    if (failure) throw failure.error;
  }

  #stemcellMethod(): Handlers<typeof CpiServiceService>["createStemcell"] {
    return this.#method("createStemcell", ({ imagePath, stemcellFormats, exceptCpis, context }) => {
      const image = readFileSync(imagePath, "utf8");
      const version = context?.cpiConfigVersion ?? "";
      const all = version === "" ? [""] : (this.cpiConfigs.get(version) ?? []).map((cpi) => cpi.name);
      const asked = all.filter((cpi) => !exceptCpis.includes(cpi) && this.#takes(cpi, stemcellFormats));
      const stemcells = asked.map((cpi) => {
        if (this.brokenCpis.has(cpi)) return { cpi, stemcellCid: "", error: `${cpi} is broken` };
        if (this.withoutStemcells.has(cpi)) return { cpi, stemcellCid: "", error: "" };
        const stemcellCid = `sc-${this.stemcells.size + 1}-${cpi}`;
        this.stemcells.set(stemcellCid, { cpi, image });
        return { cpi, stemcellCid, error: "" };
      });
      return { response: { stemcells }, about: asked.join(",") };
    });
  }

  #vm(vmCid: string, cpi: string, context: CpiContext): MemoryVm {
    const vm = this.vms.get(vmCid);
    if (!vm || !(cpi === ANY || this.#owns(cpi, vm.cpi, context))) throw new VmNotFoundError(`there is no VM ${vmCid}`);
    return vm;
  }

  #disk(diskCid: string, cpi: string, context: CpiContext): MemoryDisk {
    const disk = this.disks.get(diskCid);
    if (!disk || !(cpi === ANY || this.#owns(cpi, disk.cpi, context)))
      throw new DiskNotFoundError(`there is no disk ${diskCid}`);
    return disk;
  }
}
