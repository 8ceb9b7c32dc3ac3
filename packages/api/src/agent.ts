export * from "./generated/diskmesh/agent/v1/agent_driver_service.js";
export * from "./generated/diskmesh/agent/v1/disk_agent_service.js";
