CREATE TABLE `records` (
  `id` varbinary(255) NOT NULL,
  `value` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL CHECK (json_valid(`value`)),
  `created_at` bigint(20) DEFAULT NULL,
  `expires_at` bigint(20) DEFAULT NULL,
  `sweep_at` bigint(20) NOT NULL DEFAULT 0,
  `version` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `records_sweep_at` (`sweep_at`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
