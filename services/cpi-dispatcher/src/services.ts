import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { OPERATOR_ROLES, type Role } from "@diskmesh/domain";
import { allow, allowChange, offer, type RpcServer } from "@diskmesh/rpc";
import type { DispatcherContext } from "./cpis/context.js";
import { cpiMethods } from "./handlers/cpi-methods.js";
import { createStemcell } from "./handlers/create-stemcell.js";
import { endCalls } from "./handlers/end-calls.js";
import { fence } from "./handlers/fence.js";
import { listCpis } from "./handlers/list-cpis.js";
import { setCpiConfig } from "./handlers/set-cpi-config.js";
import { watchCpiLog } from "./handlers/watch-cpi-log.js";

const DIRECTORS: readonly Role[] = ["director"];
const READERS: readonly Role[] = ["director", ...OPERATOR_ROLES];

/** Adds the CPI service: all methods for directors, read-only methods for operators. */
export function addServices(server: Pick<RpcServer, "addService">, current: () => DispatcherContext): void {
  offer(server, CpiServiceDefinition, current, {
    info: allow(READERS, cpiMethods.info),
    createVm: allowChange(DIRECTORS, cpiMethods.createVm),
    deleteVm: allowChange(DIRECTORS, cpiMethods.deleteVm),
    hasVm: allow(READERS, cpiMethods.hasVm),
    createDisk: allowChange(DIRECTORS, cpiMethods.createDisk),
    deleteDisk: allowChange(DIRECTORS, cpiMethods.deleteDisk),
    hasDisk: allow(READERS, cpiMethods.hasDisk),
    attachDisk: allowChange(DIRECTORS, cpiMethods.attachDisk),
    detachDisk: allowChange(DIRECTORS, cpiMethods.detachDisk),
    getDisks: allow(READERS, cpiMethods.getDisks),
    setDiskMetadata: allowChange(DIRECTORS, cpiMethods.setDiskMetadata),
    createStemcell: allowChange(DIRECTORS, createStemcell),
    deleteStemcell: allowChange(DIRECTORS, cpiMethods.deleteStemcell),
    listVms: allow(READERS, cpiMethods.listVms),
    rebootVm: allowChange(DIRECTORS, cpiMethods.rebootVm),
    setVmMetadata: allowChange(DIRECTORS, cpiMethods.setVmMetadata),
    resizeDisk: allowChange(DIRECTORS, cpiMethods.resizeDisk),
    updateDisk: allowChange(DIRECTORS, cpiMethods.updateDisk),
    setDiskLimits: allowChange(DIRECTORS, cpiMethods.setDiskLimits),
    getCapacity: allow(DIRECTORS, cpiMethods.getCapacity),
    snapshotDisk: allowChange(DIRECTORS, cpiMethods.snapshotDisk),
    deleteSnapshot: allowChange(DIRECTORS, cpiMethods.deleteSnapshot),
    calculateVmCloudProperties: allow(DIRECTORS, cpiMethods.calculateVmCloudProperties),
    setCpiConfig: allowChange(DIRECTORS, setCpiConfig),
    watchCpiLog: allow(DIRECTORS, watchCpiLog),
    listCpis: allow(READERS, listCpis),
    fence: allowChange(DIRECTORS, fence),
    endCalls: allowChange(DIRECTORS, endCalls),
  });
}
