import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, offer, type RpcServer } from "@diskmesh/rpc";
import type { DispatcherContext } from "./context.js";
import { cpiMethods } from "./handlers/cpi-methods.js";
import { createStemcell } from "./handlers/create-stemcell.js";
import { endCalls } from "./handlers/end-calls.js";
import { fence } from "./handlers/fence.js";
import { listCpis } from "./handlers/list-cpis.js";
import { setCpiConfig } from "./handlers/set-cpi-config.js";
import { watchCpiLog } from "./handlers/watch-cpi-log.js";

const DIRECTORS: readonly Role[] = ["director"];
const READERS: readonly Role[] = ["director", ...OPERATOR_ROLES];

/** Offers the CPI contract: to directors all of it, to operators what changes nothing. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => DispatcherContext): void {
  offer(server, CpiServiceDefinition, current, {
    info: allow(READERS, cpiMethods.info),
    createVm: allow(DIRECTORS, cpiMethods.createVm),
    deleteVm: allow(DIRECTORS, cpiMethods.deleteVm),
    hasVm: allow(READERS, cpiMethods.hasVm),
    createDisk: allow(DIRECTORS, cpiMethods.createDisk),
    deleteDisk: allow(DIRECTORS, cpiMethods.deleteDisk),
    hasDisk: allow(READERS, cpiMethods.hasDisk),
    attachDisk: allow(DIRECTORS, cpiMethods.attachDisk),
    detachDisk: allow(DIRECTORS, cpiMethods.detachDisk),
    getDisks: allow(READERS, cpiMethods.getDisks),
    setDiskMetadata: allow(DIRECTORS, cpiMethods.setDiskMetadata),
    createStemcell: allow(DIRECTORS, createStemcell),
    deleteStemcell: allow(DIRECTORS, cpiMethods.deleteStemcell),
    listVms: allow(READERS, cpiMethods.listVms),
    rebootVm: allow(DIRECTORS, cpiMethods.rebootVm),
    setVmMetadata: allow(DIRECTORS, cpiMethods.setVmMetadata),
    resizeDisk: allow(DIRECTORS, cpiMethods.resizeDisk),
    updateDisk: allow(DIRECTORS, cpiMethods.updateDisk),
    snapshotDisk: allow(DIRECTORS, cpiMethods.snapshotDisk),
    deleteSnapshot: allow(DIRECTORS, cpiMethods.deleteSnapshot),
    calculateVmCloudProperties: allow(DIRECTORS, cpiMethods.calculateVmCloudProperties),
    setCpiConfig: allow(DIRECTORS, setCpiConfig),
    watchCpiLog: allow(DIRECTORS, watchCpiLog),
    listCpis: allow(READERS, listCpis),
    fence: allow(DIRECTORS, fence),
    endCalls: allow(DIRECTORS, endCalls),
  });
}
