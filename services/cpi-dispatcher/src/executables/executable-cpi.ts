import {
  type AttachOptions,
  type Capacity,
  type Cpi,
  type CpiCall,
  type CpiInfo,
  CpiUnusableError,
  type FoundVm,
  hostOfCid,
  InvalidCpiResponseError,
  type MadeDisk,
  type NewDisk,
  type NewStemcell,
  type NewVm,
  type Vm,
  VmNotFoundError,
  type VmPage,
} from "@diskmesh/cpi";
import {
  CancelledError,
  type JsonObject,
  messageOf,
  NotImplementedError,
  ResourceExhaustedError,
  TimeoutError,
} from "@diskmesh/domain";
import type { Slots } from "@diskmesh/service";
import { resultOf } from "../model/answers.js";
import { type InfoOutcome, type Negotiated, negotiate } from "../model/negotiation.js";
import { secretEnv } from "../model/redacted-request.js";
import { CpiProcess, type CpiProcessOptions, type CpiRequest, withCpiOn } from "./cpi-process.js";
import { unlessAborted } from "./unless-aborted.js";

interface CallLimits {
  readonly maxConcurrentCalls: number;
  readonly maxWaitingCalls: number;
}

export interface ExecutableCpiOptions extends CpiProcessOptions {
  /** Concurrency limit of the CPI's calls, info included. */
  readonly slots: Slots;
  readonly limits: CpiProcessOptions["limits"] & CallLimits;
  /** Treats a CPI whose info fails as version 1, as former directors did. */
  readonly assumeV1WhenInfoFails: boolean;
}

interface LearntInfo {
  readonly outcome: InfoOutcome;
  readonly stemcellFormats: readonly string[];
  readonly needsVmSpec: boolean;
}

/** Defaults for a CPI whose info does not report these facts. */
const UNSAID = { stemcellFormats: [], needsVmSpec: true } as const;

/** A CPI whose executable is started for every call. Only the CPI's info is cached. */
export class ExecutableCpi implements Cpi {
  readonly #process: CpiProcess;
  #learnt: LearntInfo | undefined;
  #asking: { readonly answer: Promise<LearntInfo>; readonly signal: AbortSignal } | undefined;

  constructor(private readonly options: ExecutableCpiOptions) {
    this.#process = new CpiProcess(options);
  }

  async info(call: CpiCall): Promise<CpiInfo> {
    const { apiVersion } = await this.#negotiate(call);
    const { stemcellFormats, needsVmSpec } = await this.#learn(call);
    // The CPI contract has no tokens, and a repeated call with the same agent id makes another VM.
    return { apiVersion, stemcellFormats, findsByToken: false, needsVmSpec };
  }

  async createStemcell({ imagePath, cloudProperties, tags }: NewStemcell, call: CpiCall): Promise<string> {
    const { createStemcellTakesTags } = await this.#negotiate(call);
    const args = [imagePath, cloudProperties, ...(createStemcellTakesTags ? [{ tags }] : [])];
    const request = { method: "create_stemcell", args } as const;
    return this.#call(request, call, (result) => resultOf.cid("create_stemcell", result));
  }

  async deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "delete_stemcell", args: [stemcellCid] }, call, ignored);
  }

  async createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    const { createVmResult, usesRegistry, apiVersion } = await this.#negotiate(call);
    const { agentId, stemcellCid, cloudProperties, networks, diskCids, env } = vm;
    const args = [agentId, stemcellCid, cloudProperties, networks, diskCids, env];
    const request = { method: "create_vm", args, secrets: secretEnv(env) } as const;
    const made = await this.#call(request, call, (result) => resultOf.createVm(result, createVmResult));
    return { vmCid: made.vmCid, networks: made.networks ?? networks, agentId, usesRegistry, apiVersion };
  }

  async deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "delete_vm", args: [vmCid], vmCid }, call, ignored);
  }

  async hasVm(vmCid: string, call: CpiCall): Promise<FoundVm> {
    if (hostOfCid(vmCid) !== undefined) return { exists: false, az: "" };
    const found = (result: unknown) => ({ exists: resultOf.flag("has_vm", result), az: "" });
    return this.#call({ method: "has_vm", args: [vmCid], vmCid }, call, found);
  }

  async rebootVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "reboot_vm", args: [vmCid], vmCid }, call, ignored);
  }

  async setVmMetadata(vmCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    await this.#call({ method: "set_vm_metadata", args: [vmCid, metadata], vmCid }, call, ignored);
  }

  /** Creates a disk. The CPI contract has no tokens, so a disk whose cid was lost cannot be found again. */
  async createDisk({ sizeMib, cloudProperties, vmCid }: NewDisk, call: CpiCall): Promise<MadeDisk> {
    const args = [sizeMib, cloudProperties, vmCid === "" ? null : vmCid];
    const made = (result: unknown) => ({ diskCid: resultOf.cid("create_disk", result), sizeBytes: 0 });
    return this.#call({ method: "create_disk", args, vmCid }, call, made);
  }

  async deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "delete_disk", args: [diskCid], diskCid }, call, ignored);
  }

  async hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    const request = { method: "has_disk", args: [diskCid], diskCid } as const;
    return this.#call(request, call, (result) => resultOf.flag("has_disk", result));
  }

  async attachDisk(vmCid: string, diskCid: string, call: CpiCall, options?: AttachOptions): Promise<unknown> {
    if (options?.readOnly)
      throw new NotImplementedError(
        `CPI ${this.options.name} cannot attach disk ${diskCid} read-only, because BOSH's CPI contract has no read-only attach: attach the disk writable`,
      );
    const { attachDiskAnswersHint } = await this.#negotiate(call);
    const request = { method: "attach_disk", args: [vmCid, diskCid], vmCid, diskCid } as const;
    const hint = await this.#call(request, call, (result) => result);
    return attachDiskAnswersHint ? (hint ?? null) : undefined;
  }

  async detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "detach_disk", args: [vmCid, diskCid], vmCid, diskCid }, call, ignored);
  }

  async getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]> {
    const request = { method: "get_disks", args: [vmCid], vmCid } as const;
    return this.#call(request, call, (result) => resultOf.cids("get_disks", result));
  }

  async setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    await this.#call({ method: "set_disk_metadata", args: [diskCid, metadata], diskCid }, call, ignored);
  }

  async resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<number> {
    await this.#call({ method: "resize_disk", args: [diskCid, sizeMib], diskCid }, call, ignored);
    return 0;
  }

  async updateDisk(diskCid: string, sizeMib: number, properties: JsonObject, call: CpiCall): Promise<string> {
    const request = { method: "update_disk", args: [diskCid, sizeMib, properties], diskCid } as const;
    return this.#call(request, call, (result) => resultOf.updatedDisk(result, diskCid));
  }

  async snapshotDisk(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<string> {
    const request = { method: "snapshot_disk", args: [diskCid, metadata], diskCid } as const;
    return this.#call(request, call, (result) => resultOf.snapshot(result));
  }

  async deleteSnapshot(snapshotCid: string, call: CpiCall): Promise<void> {
    await this.#call({ method: "delete_snapshot", args: [snapshotCid] }, call, ignored);
  }

  async listVms(): Promise<VmPage> {
    throw new NotImplementedError("BOSH's CPI contract has no method that lists VMs");
  }

  async setDiskLimits(): Promise<void> {
    throw new NotImplementedError(
      `CPI ${this.options.name} cannot limit the I/O of disks, because BOSH's CPI contract has no method for limits: use the CPI's own cloud properties`,
    );
  }

  async getCapacity(): Promise<Capacity> {
    throw new NotImplementedError(
      `CPI ${this.options.name} does not know its free space, because BOSH's CPI contract has no method for it`,
    );
  }

  async calculateVmCloudProperties(desired: JsonObject, call: CpiCall): Promise<JsonObject> {
    const method = "calculate_vm_cloud_properties";
    return this.#call({ method, args: [desired] }, call, (result) => resultOf.object(method, result));
  }

  async #call<Result>(
    request: Omit<CpiRequest, "apiVersion">,
    call: CpiCall,
    check: (result: unknown) => Result,
  ): Promise<Result> {
    if (hostOfCid(request.vmCid ?? "") !== undefined) throw new VmNotFoundError(request.vmCid ?? "");
    const { apiVersion } = await this.#negotiate(call);
    return this.#inSlot(call.signal, () => this.#process.call({ ...request, apiVersion }, call, check));
  }

  async #inSlot<Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> {
    const { name: cpi, slots, limits } = this.options;
    const { maxConcurrentCalls, maxWaitingCalls } = limits;
    if (slots.inUse >= maxConcurrentCalls + maxWaitingCalls)
      throw new ResourceExhaustedError(
        `${maxWaitingCalls} calls of CPI ${cpi} already wait, the limit: try again later`,
        {
          reason: "QUEUE_FULL",
          about: { cpi },
          retryAfterMs: 1_000,
        },
      );
    return slots.run(work, signal);
  }

  async #negotiate(call: CpiCall): Promise<Negotiated> {
    const { preferredApiVersion, stemcellApiVersion } = call;
    const { assumeV1WhenInfoFails, name } = this.options;
    const { outcome } = await this.#learn(call);
    const met = { preferredApiVersion, stemcellApiVersion, info: outcome, assumeV1WhenInfoFails };
    return withCpiOn(name, "info", () => negotiate(met));
  }

  /**
   * Returns the CPI's info, or the failure of its info call. A failure is cached only with `assumeV1WhenInfoFails`, and
   * not after a cancellation or timeout.
   */
  async #learn(call: CpiCall): Promise<LearntInfo> {
    if (this.#learnt) return this.#learnt;
    try {
      this.#learnt = await this.#learnTogether(call);
      return this.#learnt;
    } catch (error) {
      if (call.signal.aborted) throw call.signal.reason;
      // The CPI was not called.
      if (error instanceof CpiUnusableError) throw error;
      const isDefinite = error instanceof InvalidCpiResponseError;
      const outcome = { kind: "failed", message: messageOf(error), isDefinite } as const;
      const failed = { outcome, ...UNSAID };
      if (this.options.assumeV1WhenInfoFails && !isGivenUp(error)) this.#learnt = failed;
      return failed;
    }
  }

  /**
   * Shares a single info call among concurrent callers. When the caller that started it gives up, another caller starts
   * a new one.
   */
  async #learnTogether(call: CpiCall): Promise<LearntInfo> {
    while (this.#asking) {
      const { answer, signal } = this.#asking;
      try {
        return await unlessAborted(answer, call.signal);
      } catch (error) {
        if (call.signal.aborted || !signal.aborted) throw error;
      }
    }
    const answer = this.#inSlot(call.signal, () => this.#ask(call));
    this.#asking = { answer, signal: call.signal };
    try {
      return await answer;
    } finally {
      this.#asking = undefined;
    }
  }

  async #ask(call: CpiCall): Promise<LearntInfo> {
    try {
      const request = { method: "info", args: [], apiVersion: undefined } as const;
      const { apiVersion, ...said } = await this.#process.call(request, call, resultOf.info);
      return { outcome: { kind: "answered", apiVersion }, ...said };
    } catch (error) {
      if (error instanceof NotImplementedError) return { outcome: { kind: "not_implemented" }, ...UNSAID };
      throw error;
    }
  }
}

const ignored = (): void => {};

const isGivenUp = (error: unknown): boolean => error instanceof CancelledError || error instanceof TimeoutError;
