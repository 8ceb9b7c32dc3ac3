import type { Config as WireConfig } from "@diskmesh/api/director";
import type { Config } from "../store/config.js";

export function encodeConfig(config: Config): WireConfig {
  const { configId, type, name, content, createdAtMs } = config;
  return { configId, type, name, content, createTime: new Date(createdAtMs) };
}
