CREATE TABLE `own` (
  `tenant` bigint(20) NOT NULL,
  `name` varbinary(255) NOT NULL,
  `text` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci DEFAULT NULL,
  `all` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`all`)),
  `made` timestamp(3) NULL DEFAULT NULL,
  `Ends` datetime(3) DEFAULT NULL,
  `look at` bigint(20) NOT NULL DEFAULT 0,
  `select` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`tenant`,`name`),
  KEY `own_look at` (`look at`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
