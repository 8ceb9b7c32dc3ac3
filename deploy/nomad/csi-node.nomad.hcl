# The node plugin of the CSI driver, on each client that serves disks. docs/guides/nomad.md says what it needs.
job "csi-diskmesh-node" {
  type = "system"

  constraint {
    attribute = "${meta.diskmesh_host}"
    operator  = "is_set"
  }

  group "node" {
    task "csi-driver" {
      driver = "docker"

      csi_plugin {
        id        = "diskmesh"
        type      = "node"
        mount_dir = "/csi"
      }

      config {
        image      = "diskmesh:0.2.0"
        command    = "diskmesh-csi-driver"
        args       = ["--node", "--config", "/local/csi-driver.yaml"]
        privileged = true
        volumes = [
          "/var/lib/diskmesh:/var/lib/diskmesh:ro",
          "/var/lib/diskmesh/csi-node:/var/lib/diskmesh/csi-node",
          "/dev:/dev",
        ]
      }

      user = "root"

      template {
        destination = "local/csi-driver.yaml"
        data        = <<-END
          maxVolumesPerNode: 64
          node:
            hostId: {{ env "meta.diskmesh_host" }}
            az: {{ env "meta.diskmesh_az" }}
            exportsFolder: /var/lib/diskmesh/agent/exports
            mountFolders: [/csi]
        END
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
