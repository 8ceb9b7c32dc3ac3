export * from "./generated/diskmesh/agent/v1/disk_agent_service.js";
