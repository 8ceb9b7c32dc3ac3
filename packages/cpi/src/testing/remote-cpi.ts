import { CallContext, type CpiServiceDefinition } from "@diskmesh/api/cpi";
import { type IoLimits, type JsonObject, NotImplementedError } from "@diskmesh/domain";
import type { CallOptions, Client } from "@diskmesh/rpc";
import type {
  AttachOptions,
  Capacity,
  Cpi,
  CpiCall,
  CpiInfo,
  FoundVm,
  MadeDisk,
  NewDisk,
  NewStemcell,
  NewVm,
  Vm,
  VmPage,
  WantedPage,
} from "../cpi.js";

/** A CPI behind a dispatcher, called over gRPC as the director does. */
export class RemoteCpi implements Cpi {
  constructor(
    private readonly client: Client<typeof CpiServiceDefinition>,
    /** Overrides fields of every call's context. */
    private readonly context: Partial<CallContext> = {},
  ) {}

  async info(call: CpiCall): Promise<CpiInfo> {
    return this.client.info({ context: this.#context(call) }, optionsOf(call));
  }

  /** Uses the CPI that the context names, or else the only one. */
  async createStemcell(stemcell: NewStemcell, call: CpiCall): Promise<string> {
    const request = { ...stemcell, context: this.#context(call), stemcellFormats: [], exceptCpis: [] };
    const { stemcells } = await this.client.createStemcell(request, optionsOf(call));
    const [made] = stemcells;
    if (made !== undefined && made.error !== "") throw new Error(made.error);
    if (made === undefined || made.stemcellCid === "") throw new NotImplementedError("no CPI makes stemcells");
    return made.stemcellCid;
  }

  async deleteStemcell(stemcellCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteStemcell({ context: this.#context(call), stemcellCid }, optionsOf(call));
  }

  async createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    const request = { ...vm, diskCids: [...vm.diskCids], context: this.#context(call) };
    const { cpi: _, networks, ...made } = await this.client.createVm(request, optionsOf(call));
    return { ...made, networks: networks ?? {} };
  }

  async deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteVm({ context: this.#context(call), vmCid }, optionsOf(call));
  }

  hasVm(vmCid: string, call: CpiCall): Promise<FoundVm> {
    return this.client.hasVm({ context: this.#context(call), vmCid }, optionsOf(call));
  }

  listVms(page: WantedPage, call: CpiCall): Promise<VmPage> {
    return this.client.listVms({ context: this.#context(call), ...page }, optionsOf(call));
  }

  async rebootVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.client.rebootVm({ context: this.#context(call), vmCid }, optionsOf(call));
  }

  async setVmMetadata(vmCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    await this.client.setVmMetadata({ context: this.#context(call), vmCid, metadata }, optionsOf(call));
  }

  async createDisk(disk: NewDisk, call: CpiCall): Promise<MadeDisk> {
    return this.client.createDisk({ ...disk, context: this.#context(call) }, optionsOf(call));
  }

  async deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteDisk({ context: this.#context(call), diskCid }, optionsOf(call));
  }

  async hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    return (await this.client.hasDisk({ context: this.#context(call), diskCid }, optionsOf(call))).exists;
  }

  async attachDisk(vmCid: string, diskCid: string, call: CpiCall, options?: AttachOptions): Promise<unknown> {
    const request = { context: this.#context(call), vmCid, diskCid, ...options };
    return (await this.client.attachDisk(request, optionsOf(call))).diskHint;
  }

  async detachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<void> {
    await this.client.detachDisk({ context: this.#context(call), vmCid, diskCid }, optionsOf(call));
  }

  async getDisks(vmCid: string, call: CpiCall): Promise<readonly string[]> {
    return (await this.client.getDisks({ context: this.#context(call), vmCid }, optionsOf(call))).diskCids;
  }

  async setDiskMetadata(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<void> {
    await this.client.setDiskMetadata({ context: this.#context(call), diskCid, metadata }, optionsOf(call));
  }

  async resizeDisk(diskCid: string, sizeMib: number, call: CpiCall): Promise<number> {
    const request = { context: this.#context(call), diskCid, sizeMib };
    return (await this.client.resizeDisk(request, optionsOf(call))).sizeBytes;
  }

  async setDiskLimits(diskCid: string, limits: IoLimits | undefined, call: CpiCall): Promise<void> {
    await this.client.setDiskLimits({ context: this.#context(call), diskCid, limits }, optionsOf(call));
  }

  async getCapacity(az: string, cloudProperties: JsonObject, call: CpiCall): Promise<Capacity> {
    const request = { context: { ...this.#context(call), az }, cloudProperties };
    return this.client.getCapacity(request, optionsOf(call));
  }

  async updateDisk(diskCid: string, sizeMib: number, cloudProperties: JsonObject, call: CpiCall): Promise<string> {
    const request = { context: this.#context(call), diskCid, sizeMib, cloudProperties };
    return (await this.client.updateDisk(request, optionsOf(call))).diskCid;
  }

  async snapshotDisk(diskCid: string, metadata: JsonObject, call: CpiCall): Promise<string> {
    const request = { context: this.#context(call), diskCid, metadata };
    return (await this.client.snapshotDisk(request, optionsOf(call))).snapshotCid;
  }

  async deleteSnapshot(snapshotCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteSnapshot({ context: this.#context(call), snapshotCid }, optionsOf(call));
  }

  async calculateVmCloudProperties(desired: JsonObject, call: CpiCall): Promise<JsonObject> {
    const request = { context: this.#context(call), desired };
    return (await this.client.calculateVmCloudProperties(request, optionsOf(call))).cloudProperties ?? {};
  }

  #context(call: CpiCall): CallContext {
    const { directorId, requestId, stemcellApiVersion, preferredApiVersion } = call;
    return CallContext.fromPartial({
      directorId,
      directorGeneration: 1,
      requestId,
      stemcellApiVersion,
      preferredApiVersion,
      ...this.context,
    });
  }
}

function optionsOf(call: CpiCall): CallOptions {
  return { signal: call.signal, deadlineMs: call.deadlineAtMs - Date.now() };
}
