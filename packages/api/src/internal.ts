export * from "./generated/diskmesh/internal/v1/agent_driver_service.js";
export * from "./generated/diskmesh/internal/v1/agent_registration_service.js";
export * from "./generated/diskmesh/internal/v1/disk_agent_service.js";
export * from "./generated/diskmesh/internal/v1/stamp.js";
