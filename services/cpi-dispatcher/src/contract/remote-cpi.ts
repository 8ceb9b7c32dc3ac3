import { CallContext, type CpiServiceService } from "@diskmesh/api/cpi";
import type { CallOptions, Client } from "@diskmesh/rpc";
import type { Cpi, CpiCall, CpiInfo, JsonObject, NewDisk, NewVm, Vm } from "../cpi.js";

/** A CPI behind a dispatcher: the contract as a director sees it. */
export class RemoteCpi implements Cpi {
  constructor(
    private readonly client: Client<typeof CpiServiceService>,
    private readonly directorGeneration = 1,
  ) {}

  async info(call: CpiCall): Promise<CpiInfo> {
    return this.client.info({ context: this.#context(call) }, optionsOf(call));
  }

  async createVm(vm: NewVm, call: CpiCall): Promise<Vm> {
    const request = { ...vm, diskCids: [...vm.diskCids], context: this.#context(call) };
    const { vmCid, networks, agentId } = await this.client.createVm(request, optionsOf(call));
    return { vmCid, networks: networks ?? {}, agentId };
  }

  async deleteVm(vmCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteVm({ context: this.#context(call), vmCid }, optionsOf(call));
  }

  async hasVm(vmCid: string, call: CpiCall): Promise<boolean> {
    return (await this.client.hasVm({ context: this.#context(call), vmCid }, optionsOf(call))).exists;
  }

  async createDisk(disk: NewDisk, call: CpiCall): Promise<string> {
    return (await this.client.createDisk({ ...disk, context: this.#context(call) }, optionsOf(call))).diskCid;
  }

  async deleteDisk(diskCid: string, call: CpiCall): Promise<void> {
    await this.client.deleteDisk({ context: this.#context(call), diskCid }, optionsOf(call));
  }

  async hasDisk(diskCid: string, call: CpiCall): Promise<boolean> {
    return (await this.client.hasDisk({ context: this.#context(call), diskCid }, optionsOf(call))).exists;
  }

  async attachDisk(vmCid: string, diskCid: string, call: CpiCall): Promise<unknown> {
    return (await this.client.attachDisk({ context: this.#context(call), vmCid, diskCid }, optionsOf(call))).diskHint;
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

  #context(call: CpiCall): CallContext {
    const { directorId, requestId, stemcellApiVersion } = call;
    return CallContext.fromPartial({
      directorId,
      directorGeneration: this.directorGeneration,
      requestId,
      stemcellApiVersion,
    });
  }
}

function optionsOf(call: CpiCall): CallOptions {
  return { signal: call.signal, deadlineMs: call.deadlineAtMs - Date.now() };
}
