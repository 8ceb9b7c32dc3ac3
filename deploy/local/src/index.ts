export { type OperatorClients, operatorClients } from "./clients.js";
export { agentName, DEVICE_SIZE_BYTES, DEVICES_PER_HOST, HOSTS, MeshLayout, PORT_SPAN } from "./layout.js";
export { LocalMesh, type LocalMeshOptions } from "./local-mesh.js";
