export { devicesWithBytes } from "./disk-devices.js";
export * from "./generated/diskmesh/registry/v1/disk_registry_service.js";
export * from "./generated/diskmesh/registry/v1/fleet_service.js";
export * from "./generated/diskmesh/registry/v1/join_token_service.js";
export * from "./generated/diskmesh/registry/v1/types.js";
