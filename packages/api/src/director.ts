export * from "./generated/diskmesh/director/v1/config_service.js";
export * from "./generated/diskmesh/director/v1/deployment_service.js";
export * from "./generated/diskmesh/director/v1/dynamic_disk_service.js";
export * from "./generated/diskmesh/director/v1/event_service.js";
export * from "./generated/diskmesh/director/v1/lock_service.js";
export * from "./generated/diskmesh/director/v1/stemcell_service.js";
export * from "./generated/diskmesh/director/v1/task_service.js";
